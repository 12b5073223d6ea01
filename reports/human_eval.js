"use strict";
// One judge's page: shows a question at a time, keeps every grade at once, and saves a file.
// Whatever comes from the data is put in place as text, never as markup.

const content = JSON.parse(document.getElementById("content").textContent);
const SIDES = ["A", "B"];
const GRADES = [0, 1, 2, 3, 4];
const find = (id) => document.getElementById(id);
const prefix = `pmn-bench judge ${content.round} ${content.judge} `;
const fileName = `judgement-${content.round.slice(0, 8)}-judge-${content.judge}.json`;
const marks = {}; // by question: {A, B, at}
const seen = {}; // by question: for how many milliseconds it was in sight
let storage = openStorage();
let token = null; // tells this browser from another that has the same page
let place = 0;
let active = "A"; // the explanation that the keys 0 to 4 grade
let since = document.hidden ? null : performance.now(); // null while nobody looks
let unsaved = false;

// --- what is kept -----------------------------------------------------------------------

function openStorage() {
  try {
    const found = window.localStorage;
    found.setItem(`${prefix}probe`, "1");
    found.removeItem(`${prefix}probe`);
    return found;
  } catch {
    warnOfForgetting();
    return null;
  }
}

function warnOfForgetting() {
  const warning = find("warning");
  warning.textContent =
    "This browser does not keep your grades: save the file before you close the page. To go on " +
    "later, open the page again and load that file (at the bottom).";
  warning.hidden = false;
}

function keep(name, value) {
  if (!storage) return;
  try {
    storage.setItem(prefix + name, value);
  } catch { // no room left, or not allowed any more
    storage = null;
    warnOfForgetting();
  }
}

// Each question has an entry of its own, which only a grade changes: two windows on the same page
// do not undo each other's grades.
function keepMarks(id) {
  keep(id, JSON.stringify(marks[id]));
}

const isWhole = (value) => Number.isSafeInteger(value) && value >= 0;
const isGrade = (value) => value === null || GRADES.includes(value);

function asMarks(found) {
  const fits = found && SIDES.every((side) => isGrade(found[side])) && isWhole(found.at);
  return fits ? { A: found.A, B: found.B, at: found.at } : null;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function recall(id) {
  const found = asMarks(parsed(storage?.getItem(prefix + id) ?? null));
  if (found) marks[id] = found;
}

function recallAll() {
  for (const { id } of content.questions) {
    recall(id);
    seen[id] = Number(storage?.getItem(`${prefix}${id} seen`)) || 0;
  }
  token = storage?.getItem(`${prefix}token`) ?? null;
}

function newToken() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// --- what is shown ----------------------------------------------------------------------

const isGraded = (id) => SIDES.every((side) => Number.isInteger(marks[id]?.[side]));
const countGraded = () => content.questions.filter(({ id }) => isGraded(id)).length;

function overlap([, l1, t1, r1, b1], [, l2, t2, r2, b2]) {
  const area = (l, t, r, b) => Math.max(r - l, 0) * Math.max(b - t, 0);
  const shared = area(Math.max(l1, l2), Math.max(t1, t2), Math.min(r1, r2), Math.min(b1, b2));
  return shared / (area(l1, t1, r1, b1) + area(l2, t2, r2, b2) - shared || 1);
}

// Boxes around the same thing share a tag: theirs would hide one another.
function places(boxes) {
  const found = [];
  for (const box of boxes) {
    const place = found.find((some) => some.some((other) => overlap(box, other) > 0.2));
    if (place) place.push(box);
    else found.push([box]);
  }
  return found;
}

function put(scene, kind, left, top, right, bottom) {
  const element = document.createElement(kind);
  element.style.left = `${100 * left}%`;
  element.style.top = `${100 * top}%`;
  element.style.width = `${100 * (right - left)}%`;
  element.style.height = `${100 * (bottom - top)}%`;
  scene.append(element);
  return element;
}

function draw(scene, side) {
  const picture = new Image();
  picture.src = content.pictures[content.questions[place].picture];
  picture.alt = "";
  scene.replaceChildren(picture);
  for (const some of places(side.boxes)) {
    for (const [, ...edges] of some) put(scene, "span", ...edges);
    const edge = (at, outermost) => outermost(...some.map((box) => box[at]));
    const [left, top] = [edge(1, Math.min), edge(2, Math.min)];
    const around = put(scene, "div", left, top, edge(3, Math.max), edge(4, Math.max));
    const tag = document.createElement("b");
    tag.textContent = some.map(([number]) => number).join(" + ");
    tag.classList.toggle("below", top < 0.08); // else it would be outside the picture
    tag.classList.toggle("inward", left > 0.8);
    around.append(tag);
  }
  const numbers = side.boxes.map(([number]) => number);
  scene.setAttribute("aria-label", numbers.length
    ? `The picture, with ${numbers.length === 1 ? "box" : "boxes"} ${numbers.join(", ")}`
    : "The picture, with no box");
}

function showGrades() {
  const id = content.questions[place].id;
  for (const side of SIDES) {
    for (const radio of document.getElementsByName(`grade-${side}`)) {
      radio.checked = Number(radio.value) === marks[id]?.[side];
    }
    find(`side-${side}`).classList.toggle("active", side === active);
  }
  const graded = countGraded();
  const all = content.questions.length;
  find("progress").value = graded;
  find("count").textContent = `${graded} of ${all} graded`;
  find("ungraded").disabled = graded === all;
  document.body.classList.toggle("finished", graded === all);
}

function show(number, focus = true) {
  place = Math.min(Math.max(number, 0), content.questions.length - 1);
  const question = content.questions[place];
  find("number").textContent = `Question ${place + 1} of ${content.questions.length}`;
  find("question").textContent = question.text;
  for (const side of SIDES) {
    draw(find(`scene-${side}`), question[side]);
    find(`sentence-${side}`).textContent = question[side].sentence;
    find(`answer-${side}`).textContent = question[side].answer;
  }
  find("previous").disabled = place === 0;
  find("next").disabled = place === content.questions.length - 1;
  active = Number.isInteger(marks[question.id]?.A) && !isGraded(question.id) ? "B" : "A";
  keep("place", String(place));
  showGrades();
  if (focus) {
    find("question").focus({ preventScroll: true });
    find("number").scrollIntoView({ block: "nearest" });
  }
}

function say(text) {
  find("said").textContent = text;
}

// --- what the judge does ----------------------------------------------------------------

function addTime() {
  const { id } = content.questions[place];
  const now = performance.now();
  if (since !== null) seen[id] += now - since;
  since = document.hidden ? null : now;
  keep(`${id} seen`, String(Math.round(seen[id])));
}

function grade(side, value) {
  const { id } = content.questions[place];
  recall(id); // another window may have graded it
  marks[id] = { A: null, B: null, ...marks[id], [side]: value, at: Date.now() };
  keepMarks(id);
  unsaved = true;
  const other = side === "A" ? "B" : "A";
  active = Number.isInteger(marks[id][other]) ? side : other;
  showGrades();
  const left = content.questions.length - countGraded();
  say(`Explanation ${side}: ${value}. ` + (left
    ? isGraded(id) ? "Both are graded: → goes on." : ""
    : "All questions are graded. Save the file, and send it back."));
}

function go(to) {
  addTime();
  if (countGraded() === 1) find("instructions").open = false; // read, and in the way from now on
  say("");
  show(to);
}

function goToUngraded() {
  const all = content.questions.length;
  for (let step = 1; step <= all; step += 1) {
    const to = (place + step) % all;
    if (!isGraded(content.questions[to].id)) return go(to);
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.matches("textarea, input[type=file]")) return;
  const key = event.key.toUpperCase();
  if (/^[0-4]$/.test(key)) {
    // In a group of its own a key grades that group, wherever it was last.
    const group = event.target.matches("input[type=radio]") ? event.target.name.slice(-1) : active;
    grade(group, Number(key));
  } else if (SIDES.includes(key)) {
    active = key;
    showGrades();
    const radios = [...document.getElementsByName(`grade-${key}`)];
    (radios.find((radio) => radio.checked) ?? radios[0]).focus();
  } else if (key === "ARROWRIGHT" && place + 1 < content.questions.length) {
    go(place + 1);
  } else if (key === "ARROWLEFT" && place > 0) {
    go(place - 1);
  } else if (!["ARROWRIGHT", "ARROWLEFT"].includes(key)) {
    return;
  }
  event.preventDefault(); // also the arrows' own: a grade changes by 0 to 4, ↑, ↓ or a click alone
});

for (const side of SIDES) {
  for (const radio of document.getElementsByName(`grade-${side}`)) {
    radio.addEventListener("change", () => grade(side, Number(radio.value)));
  }
}
find("previous").addEventListener("click", () => go(place - 1));
find("next").addEventListener("click", () => go(place + 1));
find("ungraded").addEventListener("click", goToUngraded);
document.addEventListener("visibilitychange", addTime);
window.addEventListener("pagehide", addTime);
window.addEventListener("beforeunload", (event) => {
  if (!storage && unsaved) event.preventDefault();
});
window.addEventListener("storage", (event) => { // graded in another window
  if (event.key?.startsWith(prefix)) {
    for (const { id } of content.questions) recall(id);
    showGrades();
  }
});

// --- the file ---------------------------------------------------------------------------

function asFile() {
  addTime();
  const given = {};
  for (const id of Object.keys(marks).sort()) {
    const { A, B, at } = marks[id];
    given[id] = { A, B, milliseconds: Math.round(seen[id]), at };
  }
  const { format, round, judge } = content;
  const file = { format, round, judge, token, saved: Date.now(), marks: given };
  const lines = [format, round, judge, token, file.saved];
  for (const [id, { A, B, milliseconds, at }] of Object.entries(given)) {
    lines.push([id, A ?? "-", B ?? "-", milliseconds, at].join(" "));
  }
  return JSON.stringify({ ...file, checksum: sha256(lines.join("\n")) }, null, 1);
}

// A checksum tells a file that was edited or cut off. It is no signature, and the browser's own
// crypto.subtle is not there in pages from an address without TLS; so it is worked out here.
function sha256(text) {
  const primes = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((p) => n % p)) primes.push(n);
  const fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32) | 0;
  const constants = primes.map((p) => fraction(Math.cbrt(p)));
  const state = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));
  const bytes = [...new TextEncoder().encode(text)];
  const bits = bytes.length * 8;
  bytes.push(128);
  while (bytes.length % 64 !== 56) bytes.push(0);
  for (let shift = 56; shift >= 0; shift -= 8) bytes.push(Math.floor(bits / 2 ** shift) & 255);
  const turn = (x, by) => (x >>> by) | (x << (32 - by));
  for (let start = 0; start < bytes.length; start += 64) {
    const w = [];
    for (let i = 0; i < 64; i += 1) {
      const at = start + 4 * i;
      w.push(i < 16
        ? (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3]
        : (w[i - 16] + w[i - 7]
          + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ (w[i - 15] >>> 3))
          + (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ (w[i - 2] >>> 10))) | 0);
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i += 1) {
      const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g))
        + constants[i] + w[i]) | 0;
      const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => { state[i] = (state[i] + value) | 0; });
  }
  return state.map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

find("save").addEventListener("click", () => {
  const text = asFile();
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = fileName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  find("text").value = text;
  unsaved = false;
  const left = content.questions.length - countGraded();
  const more = left ? ` ${left} questions are still without both grades.` : " Please send it back.";
  say(`Saved as ${fileName}, where this browser keeps downloads.${more}`);
});

find("other").addEventListener("toggle", () => {
  if (find("other").open) find("text").value = asFile();
});

find("copy").addEventListener("click", async () => {
  const text = find("text");
  text.value = asFile();
  try {
    await navigator.clipboard.writeText(text.value);
  } catch { // not allowed, or not there
    text.select();
    if (!document.execCommand("copy")) {
      say("Copying is not allowed here: the text is selected, copy it by hand.");
      return;
    }
  }
  say("Copied.");
});

find("load").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  const found = parsed(await file.text());
  event.target.value = "";
  if (found?.round !== content.round || found?.judge !== content.judge) {
    say("That file is not of this round and judge.");
    return;
  }
  let taken = 0;
  for (const { id } of content.questions) {
    const theirs = asMarks(found.marks?.[id]);
    if (theirs && !(marks[id]?.at > theirs.at)) { // the later grade counts
      marks[id] = theirs;
      seen[id] = Math.max(seen[id], Number(found.marks[id].milliseconds) || 0);
      keepMarks(id);
      taken += 1;
    }
  }
  if (/^[0-9a-f]{32}$/.test(found.token)) {
    token = found.token;
    keep("token", token);
  }
  showGrades();
  say(`Took the grades of ${taken} questions.`);
});

// --- begin ------------------------------------------------------------------------------

recallAll();
if (!/^[0-9a-f]{32}$/.test(token)) {
  token = newToken();
  keep("token", token);
}
find("name").textContent = fileName;
find("instructions").open = !Object.keys(marks).length;
show(Number(storage?.getItem(`${prefix}place`)) || 0, false);
