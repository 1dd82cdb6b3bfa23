"""What programs are tried on: arguments and sizes at which they may change their ways, solved for and searched for."""
