// The page: takes a file, and shows its tags, its best classes, and the scores over time.

import { arraysOf, WrongFile } from "./arrays.js";
import { expected, joined } from "./features.js";
import { fetched, Model, start } from "./scoring.js";
import { showTimeline } from "./timeline.js";
import { framesOf, Network } from "./videos.js";

const SECONDS = 5; // of a part of the timeline
const BEST = 20; // classes that are shown; tags are chosen among them

const element = (id) => document.getElementById(id);
const say = (text) => (element("state").textContent = text);

// The classes of scores, best first; of equal scores the class with the smaller number.
const ordered = (scores) => [...scores.keys()].sort((a, b) => scores[b] - scores[a] || a - b);

let model, about, networks; // the networks are loaded with the first video
let next = null, isBusy = false; // the file that was chosen last, if it waits for one that is being scored

async function open() {
  about = JSON.parse(new TextDecoder().decode(await fetched("page.json")));
  await start();
  model = await Model.load(about);
  const count = about.classes.length;
  element("about").textContent = `Model: ${about.model || "ensemble"}, step ${about.step}, ${count} ${count === 1 ? "class" : "classes"}.`;
  element("takes").textContent = `Choose a file, or drop it here: ${allowed()}.`;
  element("threshold").hidden = !about.thresholds;
  element("file").accept = about.networks.length ? "video/*,.npy,.npz" : ".npy,.npz";
  element("file").disabled = false;
  say("The model is loaded.");
}

const allowed = () => (about.networks.length ? `a video, or ${expected(about.features)}` : expected(about.features));

async function take(file) {
  if (!model || !file) return;
  next = file;
  if (isBusy) return;
  isBusy = true;
  for (let current = next; current; current = next) {
    next = null;
    await score(current);
  }
  isBusy = false;
}

async function score(file) {
  element("error").textContent = "";
  element("results").hidden = true;
  say(`Scoring ${file.name}.`);
  try {
    const found = await read(file);
    if (!found) return; // another file has been chosen
    show(file.name, await model.scores(found.frames, SECONDS), found);
    say(`${file.name} is scored.`);
  } catch (error) {
    element("error").textContent = error instanceof WrongFile ? error.message : `${file.name} could not be scored: ${error.message}`;
    say("");
  } finally {
    element("progress").hidden = true;
  }
}

// The frames of a file, with thumbnails if it is a video.
async function read(file) {
  if (/\.np[yz]$/i.test(file.name)) return { frames: joined(await arraysOf(file), about.features, file.name), thumbnails: [], notes: [] };
  if (!about.networks.length) throw new WrongFile(`${file.name} is of another kind.\nExpected ${allowed()}.`);
  networks ??= await Promise.all(about.networks.map(Network.load));
  element("progress").hidden = false;
  return framesOf(file, networks, about, (count) => model.partsOf(count, SECONDS), (share) => {
    element("progress").value = share;
    return !next;
  });
}

function show(name, { whole, windowSeconds, overTime }, { thumbnails, notes }) {
  const best = ordered(whole).slice(0, BEST), { thresholds } = about;
  const isTagOf = (index, scores) => about.takes_best
    ? index === scores.indexOf(Math.max(...scores)) : thresholds && thresholds[index] !== null && scores[index] >= thresholds[index];
  const isTag = (index) => isTagOf(index, whole);
  element("name").textContent = name;
  showTags(best.filter(isTag));
  element("classes").tBodies[0].replaceChildren(...best.map((index) => classRow(index, whole[index], isTag(index))));
  element("over-time").hidden = overTime.scores.length === 0;
  if (overTime.scores.length) showTimeline(element("timeline"), overTime, about.classes, thumbnails, isTagOf);
  element("way").textContent = windowSeconds
    ? `Scored in windows of ${windowSeconds} seconds: each class has the score of its best window.` : "Scored as a whole.";
  element("notes").textContent = notes.length ? `Notes: ${notes.join("; ")}.` : "";
  element("parts").textContent = `The scores of every ${SECONDS} seconds, the highest classes first.`
    + (about.takes_best ? " The best score of each part is marked." : thresholds ? " Marked scores reach the threshold of their class." : "");
  element("results").hidden = false;
}

function showTags(found) {
  const tags = found.map((index) => withText("span", about.classes[index] + fewPositives(index), "tag"));
  const none = about.thresholds ? "No tag: no score reaches the threshold of its class." : "The model has no thresholds, so there are no tags.";
  const few = found.some((index) => fewPositives(index));
  const note = few ? [withText("p", "In brackets: the number of videos from which a threshold comes, if they are few.", "soft small")] : [];
  element("tags").replaceChildren(...(tags.length ? ["Tags: ", ...tags, ...note] : [none]));
}

// A note about a class whose threshold was chosen on few videos.
function fewPositives(index) {
  const count = about.few_positives?.[index] ?? null;
  return count === null ? "" : ` (${count})`;
}

function classRow(index, score, isTag) {
  const row = document.createElement("tr"), name = withText("th", about.classes[index]);
  name.scope = "row";
  row.append(name, withText("td", score.toFixed(3), "number"));
  // A class whose threshold is null is never a tag.
  if (about.thresholds) row.append(withText("td", about.thresholds[index]?.toFixed(3) ?? "never", "number"));
  row.dataset.score = score;
  if (isTag) row.className = "chosen";
  return row;
}

function withText(tag, text, name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = name;
  return made;
}

// A file that is chosen again, because it has changed, is a change of the input only if the input is empty.
element("file").addEventListener("click", (event) => (event.target.value = ""));
element("file").addEventListener("change", (event) => take(event.target.files[0]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault(); // else the browser opens the file in place of the page
    element("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files[0]);
  });
}
open().catch((error) => {
  element("error").textContent = `The model cannot be loaded: ${error.message}`;
  say("");
});
