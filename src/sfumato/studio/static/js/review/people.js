// The tracks of one recording, and every change to them. Changes go to the server one after the other.
import { post, useResource } from "../api.js";
import { useEffect, useMemo, useRef, useState } from "../html.js";
import { Boxes } from "./boxes.js";

// What is under the hand stays there, whatever arrives of the edit before it.
const unsent = (draft) => (draft?.sent ? null : draft);
const NOBODY = { tracks: [], doubts: [], revision: null, canUndo: false, canRedo: false };

export function usePeople(recording, frame) {
  const path = `api/recordings/${recording.id}`;
  const people = useResource(recording.state === "new" ? null : `${path}/people`);
  const [error, setError] = useState(null);
  const [working, setWorking] = useState(0);
  const [, draw] = useState(0);
  const [draft, setDraft] = useState(null);
  const queue = useRef(Promise.resolve());
  const settled = useRef(true);
  const revision = useRef(null);
  const boxes = useMemo(() => new Boxes(recording.id, recording.frames || 1, () => {
    if (settled.current) setDraft(unsent);
    draw((n) => n + 1);
  }), [recording.id]);
  const known = people.data || NOBODY;
  if (settled.current) revision.current = known.revision;
  useEffect(() => {
    if (people.data) boxes.want(frame, known.revision);
  }, [frame, known.revision]);

  const send = (address, body) => {
    setWorking((n) => n + 1);
    settled.current = false;
    const next = queue.current.then(async () => {
      try {
        const seen = address === "coco" ? {} : { revision: revision.current };
        const answer = await post(`${path}/${address}`, { ...body, ...seen });
        revision.current = answer.revision;
        settled.current = true;
        people.put(answer);
        if (answer.revision === boxes.revision) setDraft(unsent);
        setError(null);
        return answer;
      } catch (problem) {
        settled.current = true;
        setDraft(null);
        setError(problem);
        if (problem.status === 409) people.reload();
        return null;
      } finally {
        setWorking((n) => n - 1);
      }
    });
    queue.current = next;
    return next;
  };
  return {
    ...known, ready: Boolean(people.data), error: error || people.error, clear: () => setError(null), fail: setError, reload: people.reload,
    working: working > 0, draft, setDraft, at: (n) => boxes.at(n), revisionAt: (n) => boxes.revisionAt(n),
    edit: (body) => send("edits", body),
    undo: () => send("undo", {}),
    redo: () => send("redo", {}),
    importBoxes: (coco) => send("coco", coco),
  };
}
