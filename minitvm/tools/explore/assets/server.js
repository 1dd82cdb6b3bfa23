// The page of the local server: an editor for the lines of a schedule, and what they do.

import { activate } from "./page.js";

const element = (id) => document.getElementById(id);
const [choice, message, result] = ["choice", "message", "result"].map(element);
let state = null;
let viewed = "steps";
let asked = 0;

async function post(path, body) {
  const reply = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name: choice.value, ...body }),
  });
  if (path === "share" && reply.ok) return reply.text();
  const answer = await reply.json();
  if (!reply.ok) throw new Error(answer.error);
  return answer;
}

function say(text, line = 0) {
  message.textContent = text && line ? `line ${line}: ${text}` : text;
  message.className = text ? "mistake" : "";
}

// A text area where CodeMirror is missing.
async function editor(parent, run) {
  try {
    const { EditorView, basicSetup, keymap, Prec, python } = await import("./codemirror.js");
    const keys = Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => (run(), true) }]));
    const attributes = EditorView.contentAttributes.of({ "aria-label": "The lines of the schedule" });
    const view = new EditorView({ parent, extensions: [keys, basicSetup, python(), attributes, EditorView.lineWrapping] });
    return {
      read: () => view.state.doc.toString(),
      write: (text) => {
        if (text !== view.state.doc.toString()) {
          view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
        }
      },
    };
  } catch {
    const area = document.createElement("textarea");
    area.setAttribute("aria-label", "The lines of the schedule");
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
    });
    parent.append(area);
    return { read: () => area.value, write: (text) => (area.value = text) };
  }
}

async function show() {
  const number = ++asked;
  result.setAttribute("aria-busy", "true");
  try {
    // The programs come at once, their costs and verdicts as soon as they are known.
    for (const kind of viewed === "steps" ? ["draft", "steps"] : ["levels"]) {
      const answer = await post("answer", { kind });
      if (number !== asked) return; // a newer request is on its way
      say(answer.message, answer.line);
      if (answer.html === undefined) return;
      const place = kind === "steps" ? chosen() : Infinity;
      result.innerHTML = answer.html;
      if (viewed === "steps") activate(result, [0, place]);
      else joinStatements();
    }
  } catch (error) {
    if (number === asked) say(error.message);
  } finally {
    if (number === asked) result.setAttribute("aria-busy", "false");
  }
}

function chosen() {
  const tabs = [...result.querySelectorAll("[role=tab]")];
  return tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
}

// The same statement is marked on all levels.
function joinStatements() {
  const rows = [...result.querySelectorAll("[data-key]")];
  for (const row of rows) {
    const mark = (on) => {
      for (const other of rows) other.classList.toggle("marked", on && other.dataset.key === row.dataset.key);
    };
    row.addEventListener("pointerenter", () => mark(true));
    row.addEventListener("pointerleave", () => mark(false));
  }
}

function listVersions() {
  element("undo").disabled = !state.undo;
  element("redo").disabled = !state.redo;
  const depth = (k) => (state.versions[k].parent === null ? 0 : 1 + depth(state.versions[k].parent));
  element("versions").replaceChildren(
    ...state.versions.map((version, k) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${"· ".repeat(depth(k))}${k} ${version.label}`;
      if (k === state.at) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => act("go", k));
      item.append(button);
      return item;
    }),
  );
}

let offers = [];
let refused = 0; // the line of a refused step, whose place an offered step takes

async function offer() {
  if (!element("next").open) return;
  element("offers").textContent = "looking ...";
  try {
    const answer = await post("answer", { kind: "next" });
    offers = answer.message ? [] : (answer.next ?? []);
    refused = answer.line;
    listOffers(answer.message ? "mend the lines first" : answer.more ? "... there are more" : "");
  } catch (error) {
    element("offers").textContent = error.message;
  }
}

function listOffers(more = "") {
  const wanted = element("filter").value.trim();
  const items = offers
    .filter((one) => one.text.includes(wanted))
    .map((one) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = one.text;
      button.title = one.line;
      button.addEventListener("click", () => {
        const before = state.lines.split("\n").slice(0, refused - 1);
        if (refused) act("edit", [...before, one.line].join("\n"));
        else act("append", one.line);
      });
      item.append(button);
      return item;
    });
  element("offers").replaceChildren(...items, more);
}

async function act(action, ...args) {
  try {
    state = await post("act", { action, arguments: args });
    text.write(state.lines);
    listVersions();
    await show();
    await offer();
  } catch (error) {
    say(error.message);
  }
}

const run = () => act("edit", text.read());
const text = await editor(element("editor"), run);

element("run").addEventListener("click", run);
for (const name of ["undo", "redo", "fork"]) element(name).addEventListener("click", () => act(name));
choice.addEventListener("change", () => act("look"));
element("next").addEventListener("toggle", offer);
element("filter").addEventListener("input", () => listOffers());

element("share").addEventListener("click", async () => {
  await act("edit", text.read());
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([await post("share", {})], { type: "text/x-python" }));
  link.download = `${choice.value.replace(/\W+/g, "_")}.py`;
  link.click();
});

function choose(view) {
  viewed = view;
  for (const other of ["steps", "levels"]) element(`view-${other}`).setAttribute("aria-selected", String(other === view));
  element("hide").hidden = view !== "levels";
}

for (const view of ["steps", "levels"]) {
  element(`view-${view}`).addEventListener("click", () => {
    choose(view);
    show();
  });
}

element("hide").addEventListener("change", (event) => result.classList.toggle("all-passes", !event.target.checked));

document.addEventListener("keydown", (event) => {
  if (!event.altKey || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
  event.preventDefault();
  act(event.key === "ArrowLeft" ? "undo" : "redo");
});

if (location.hash === "#levels") choose("levels");
await act("look");
document.body.dataset.ready = "true";
