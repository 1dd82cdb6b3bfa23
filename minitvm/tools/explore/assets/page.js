// Chooses which step is visible. All steps are in the page already; without this script all of them are
// shown. `activate` makes the steps inside of an element work.

let shown = null;
let opened = false;

const tabsOf = (subject) => [...subject.querySelectorAll("[role=tab]")];
const chosenIn = (subject) => tabsOf(subject).findIndex((tab) => tab.getAttribute("aria-selected") === "true");

function choose(subject, number, focus = false) {
  const tabs = tabsOf(subject);
  const at = Math.max(0, Math.min(tabs.length - 1, number));
  tabs.forEach((tab, k) => {
    tab.setAttribute("aria-selected", String(k === at));
    tab.tabIndex = k === at ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = k !== at;
  });
  subject.querySelector(".previous").disabled = at === 0;
  subject.querySelector(".next").disabled = at === tabs.length - 1;
  if (focus) tabs[at].focus();
  // Not when the page opens: inside a frame of another page this would scroll that page to the frame.
  if (opened) tabs[at].scrollIntoView({ block: "nearest" });
  history.replaceState(null, "", `#${tabs[at].id.replace("tab-", "")}`);
}

document.addEventListener("change", (event) => {
  if (!event.target.matches(".old")) return;
  document.body.classList.toggle("hide-old", !event.target.checked);
  for (const box of document.querySelectorAll(".old")) box.checked = event.target.checked;
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("select, input, textarea, [contenteditable]");
  if (!shown || typing || event.ctrlKey || event.altKey || event.metaKey) return;
  const inProgram = event.target.matches("pre");
  const moves = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  const move = moves[event.key];
  // In a program the arrow keys scroll.
  if (move === undefined || inProgram) return;
  const onTab = event.target.matches("[role=tab]");
  if (!onTab && !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
  event.preventDefault();
  choose(shown, chosenIn(shown) + move, onTab);
});

// A film is an SVG that plays by CSS. The slider shows one moment of it.
function playable(film) {
  const [svg, button, slider] = ["svg", ".play", "input"].map((name) => film.querySelector(name));
  const play = (on) => {
    button.textContent = on ? "pause" : "play";
    button.setAttribute("aria-pressed", String(on));
    if (on && svg.style.animationName === "none") svg.style.animationName = "";
    svg.style.animationPlayState = on ? "running" : "paused";
  };
  film.querySelector(".moves").hidden = false;
  slider.max = svg.style.getPropertyValue("--last");
  button.addEventListener("click", () => play(button.getAttribute("aria-pressed") !== "true"));
  slider.addEventListener("input", () => {
    play(false);
    svg.style.animationName = "none";
    svg.style.setProperty("--film", slider.value);
  });
  film.addEventListener("toggle", () => {
    if (!film.open) return;
    svg.style.animationName = "none";
    svg.getBoundingClientRect(); // from the beginning
    svg.style.animationName = "";
    play(true);
  });
}

export function activate(root, place = location.hash.slice(1).split("-").map(Number)) {
  const subjects = [...root.querySelectorAll(".subject")];
  function show(number) {
    shown = subjects[number] ?? subjects[0];
    for (const subject of subjects) subject.hidden = subject !== shown;
    const select = root.querySelector("#subject");
    if (select) select.value = String(subjects.indexOf(shown));
  }

  for (const subject of subjects) {
    tabsOf(subject).forEach((tab, k) => tab.addEventListener("click", () => choose(subject, k)));
    subject.querySelector(".previous").addEventListener("click", () => choose(subject, chosenIn(subject) - 1));
    subject.querySelector(".next").addEventListener("click", () => choose(subject, chosenIn(subject) + 1));
  }

  root.querySelector("#subject")?.addEventListener("change", (event) => {
    show(Number(event.target.value));
    choose(shown, chosenIn(shown));
  });

  root.querySelectorAll(".film").forEach(playable);
  const [subject, step] = place;
  show(Number.isInteger(subject) ? subject : 0);
  opened = false;
  choose(shown, Number.isNaN(step) || step === undefined ? 0 : step);
  opened = true;
}
