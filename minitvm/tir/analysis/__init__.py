"""What programs do, read off their text: the questions that schedules, passes, linking and checks share."""
