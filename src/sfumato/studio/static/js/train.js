// Train: a run started from a config file and watched while it goes.
import { useResource } from "./api.js";
import { count, lasting, percent } from "./format.js";
import { html, useState } from "./html.js";
import { begin, useJobs } from "./jobs.js";
import { Chart } from "./chart.js";
import { Empty, Loading, Problem, Progress } from "./ui.js";

export function Train({ session }) {
  const trainings = useResource("api/trainings");
  const [chosen, setChosen] = useState(null);
  const [error, setError] = useState(null);
  const jobs = useJobs().filter((job) => job.kind === "train");
  if (!trainings.data) return trainings.error ? html`<${Problem} error=${trainings.error} retry=${trainings.reload} />` : html`<${Loading} what="Looking for training files …" />`;
  const configs = trainings.data.configs || [];
  const start = (config) => begin("api/train", { config: config.id }).then((id) => { setChosen(id); setError(null); }, setError);
  const job = jobs.find((each) => each.id === chosen) || jobs[0];
  if (!configs.length && !job)
    return html`<${Empty} icon="train" title="No training file here yet"><p>Put one into <b>${session.root}</b>:
      <code>sfumato examples first.yaml > first.yaml</code> writes one that makes its own clips.</p><//>`;
  return html`<header class="head"><div class="grow"><h1>Train</h1><p class="muted">The plan in the file fixes the noise; nothing on this page can change the promise.</p></div></header>
    <${Problem} error=${error} />
    <div class="sides"><div>${job ? html`<${Watch} job=${job} />` : html`<${Empty} icon="train" title="Nothing is being trained"><p>Start one of the files on the right.</p><//>`}</div>
      <aside><h2>Training files</h2><ul class="plain">${configs.map((config) => html`<li class="row" key=${config.id}><span class="grow name" title=${config.name}>${config.name}
        ${config.words && html`<small class="muted block">${config.words}</small>`}${config.problem && html`<small class="bad block">${config.problem}</small>`}</span>
        <button type="button" class="small" disabled=${session.readOnly || Boolean(config.problem)} onClick=${() => start(config)}>Start</button></li>`)}</ul>
      <p class="muted">One training a file. To choose among many, <code>sfumato tune</code> on the command line counts what the choice costs.</p>
      ${jobs.length > 1 && html`<h2>Runs</h2><ul class="plain">${jobs.map((each) => html`<li key=${each.id}><button type="button" class="pick row" aria-pressed=${each === job}
        onClick=${() => setChosen(each.id)}><span class="grow name">${each.title}</span><small class="muted">${each.state}</small></button></li>`)}</ul>`}</aside></div>`;
}

function Watch({ job }) {
  const result = job.result || {};
  const history = result.history || [];
  const series = (name) => history.filter((each) => each[name] != null).map((each) => ({ step: each.step, value: each[name] }));
  return html`<${Progress} job=${job} />
    <dl class="facts wide"><div><dt>Step</dt><dd class="number">${count(result.step || 0)}${result.steps ? ` of ${count(result.steps)}` : ""}</dd></div>
      <div><dt>Held-out accuracy</dt><dd class="number">${result.heldOut == null ? "not yet" : percent(result.heldOut, 1)}</dd></div>
      <div><dt>Time left</dt><dd class="number">${job.secondsLeft == null || job.state !== "running" ? "–" : lasting(job.secondsLeft)}</dd></div></dl>
    <section class="spent"><h2>Spent</h2><p class="lead">${result.epsilonWords || (job.state === "done" ? result.words : "Nothing yet.")}</p></section>
    <div class="charts">${series("loss").length > 0 && html`<${Chart} title="Loss" points=${series("loss")} steps=${result.steps} />`}
    <${Chart} title="Held-out accuracy" points=${series("heldOut")} steps=${result.steps} shown=${(v) => percent(v, 1)} /></div>`;
}
