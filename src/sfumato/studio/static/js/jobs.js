// Work that goes on while pages come and go, as the server tells of it.
import { post } from "./api.js";
import { useEffect, useState } from "./html.js";

const jobs = new Map();
const listeners = new Set();
const begun = new Set(); // by this window
const ENDED = new Set(["done", "failed", "cancelled"]);
export const ended = (job) => ENDED.has(job.state);

function note(job) {
  jobs.set(job.id, job);
  listeners.forEach((listener) => listener(job));
}

export function listen() {
  const source = new EventSource("api/jobs/events");
  source.addEventListener("job", (event) => note(JSON.parse(event.data)));
  return () => source.close();
}

export const cancel = async (id) => note((await post(`api/jobs/${id}/cancel`)).job);
export const resume = async (id) => note((await post(`api/jobs/${id}/resume`)).job);

/** Post what begins a job; give its id. Its events may already have been heard. */
export async function begin(path, body) {
  const { job } = await post(path, body);
  begun.add(job.id);
  note(jobs.get(job.id) || job);
  return job.id;
}

export function useJobs() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listener = () => draw((n) => n + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return [...jobs.values()].reverse();
}

export function useJob(id) {
  return useJobs().find((job) => job.id === id) || null;
}

/** Calls back when any job comes to its end while the page is open (not for those that had ended before). */
export function useJobEnds(callback) {
  useEffect(() => {
    const before = new Map([...jobs].map(([id, job]) => [id, job.state]));
    const listener = (job) => {
      const was = before.get(job.id);
      before.set(job.id, job.state);
      if (ended(job) && !ENDED.has(was) && (was || begun.has(job.id))) callback(job);
    };
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, [callback]);
}
