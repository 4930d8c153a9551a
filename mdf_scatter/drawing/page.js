"use strict";
// The diagram moves by its viewBox, so that text stays sharp at every size.
const view = document.getElementById("view");
const panel = document.getElementById("panel");
const drawings = [...view.querySelectorAll("svg")];
const { width, height } = drawings[0].viewBox.baseVal;
const LARGEST = 1.5; // pixels for a point, when the diagram is fitted: a small one does not fill a screen
let seen;
let isFitted = true;
let opener = null;

function show(box) {
  seen = box;
  const text = `${box.x} ${box.y} ${box.width} ${box.height}`;
  for (const svg of drawings) svg.setAttribute("viewBox", text);
}

// A page that is not on the screen yet has no room at all.
function room() {
  return { across: Math.max(view.clientWidth, 1), down: Math.max(view.clientHeight, 1) };
}

function fit() {
  const { across, down } = room();
  const unit = Math.max(width / across, height / down, 1 / LARGEST);
  const box = { width: unit * across, height: unit * down };
  show({ x: (width - box.width) / 2, y: (height - box.height) / 2, ...box });
  isFitted = true;
}

// Until the reader moves it, the diagram goes along with the room there is.
function refit() {
  if (isFitted) fit();
}

// Units of the drawing for one pixel of the screen.
function unit() {
  const { across, down } = room();
  return Math.max(seen.width / across, seen.height / down);
}

function move(x, y) {
  show({ ...seen, x: seen.x + x * unit(), y: seen.y + y * unit() });
  isFitted = false;
}

function zoom(factor, pixelX = view.clientWidth / 2, pixelY = view.clientHeight / 2) {
  const by = Math.min(Math.max(unit() * factor, 0.02), 50) / unit();
  // What is under the pointer stays there.
  const x = seen.x + seen.width / 2 + (pixelX - view.clientWidth / 2) * unit();
  const y = seen.y + seen.height / 2 + (pixelY - view.clientHeight / 2) * unit();
  show({ x: x - (x - seen.x) * by, y: y - (y - seen.y) * by, width: seen.width * by, height: seen.height * by });
  isFitted = false;
}

function openNode(node) {
  closePanel();
  opener = node;
  panel.hidden = false;
  document.getElementById(node.dataset.panel).hidden = false;
  for (const same of nodesOf(node)) same.setAttribute("aria-expanded", "true");
  panel.scrollTop = 0;
  refit();
}

function nodesOf(node) {
  return view.querySelectorAll(`g[data-panel="${node.dataset.panel}"]`);
}

function closePanel() {
  if (!opener) return;
  for (const same of nodesOf(opener)) same.setAttribute("aria-expanded", "false");
  document.getElementById(opener.dataset.panel).hidden = true;
  panel.hidden = true;
  opener = null;
  refit();
}

function reveal(node) {
  const at = node.getBoundingClientRect();
  const frame = view.getBoundingClientRect();
  const outside = at.left < frame.left || at.top < frame.top || at.right > frame.right || at.bottom > frame.bottom;
  if (outside) move((at.left + at.right - frame.left - frame.right) / 2, (at.top + at.bottom - frame.top - frame.bottom) / 2);
}

const STEP = 60;
const KEYS = {
  ArrowLeft: () => move(-STEP, 0),
  ArrowRight: () => move(STEP, 0),
  ArrowUp: () => move(0, -STEP),
  ArrowDown: () => move(0, STEP),
  "+": () => zoom(0.8),
  "=": () => zoom(0.8),
  "-": () => zoom(1.25),
  0: fit,
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && opener) {
    const back = opener;
    closePanel();
    back.focus();
  }
});

view.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const node = event.target.closest("g[data-panel]");
  if (node && (event.key === "Enter" || event.key === " ")) openNode(node);
  else if (KEYS[event.key]) KEYS[event.key]();
  else return;
  event.preventDefault();
});

view.addEventListener("focusin", (event) => {
  const node = event.target.closest("g[data-panel]");
  if (node && node.matches(":focus-visible")) reveal(node);
});

view.addEventListener("wheel", (event) => {
  const frame = view.getBoundingClientRect();
  zoom(Math.exp(event.deltaY * 0.0015), event.clientX - frame.left, event.clientY - frame.top);
  event.preventDefault();
}, { passive: false });

// A drag of a few pixels is a click of an unsteady hand.
let dragged = 0;
view.addEventListener("pointermove", (event) => {
  if (!(event.buttons & 1)) return;
  dragged += Math.abs(event.movementX) + Math.abs(event.movementY);
  move(-event.movementX, -event.movementY);
  view.classList.add("dragged");
});
view.addEventListener("pointerdown", () => { dragged = 0; });
window.addEventListener("pointerup", () => view.classList.remove("dragged"));

view.addEventListener("click", (event) => {
  const node = event.target.closest("g[data-panel]");
  if (node && dragged < 6) openNode(node);
});

document.getElementById("close").addEventListener("click", () => {
  const back = opener;
  closePanel();
  back.focus();
});

for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => KEYS[{ in: "+", out: "-", fit: "0" }[button.dataset.zoom]]());
}

window.addEventListener("resize", refit);
fit();
