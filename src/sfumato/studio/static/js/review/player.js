// Which frame is shown, and the picture of it. Playing shows every frame: on a busy machine it is slow, never skipping.
import { useCallback, useEffect, useMemo, useRef, useState } from "../html.js";
import { Frames } from "./frames.js";

const WIDTHS = [320, 480, 640, 960, 1280, 1920, 2560, 3840];

/** The width to ask for: enough for the screen, never more than there is. */
export const widthFor = (pixels, own) => Math.min(own, WIDTHS.find((each) => each >= pixels) || own);

export function usePlayer(recording, width, startFrame) {
  const total = recording.frames || 1;
  const [frame, setFrame] = useState(Math.min(Math.max(0, startFrame || 0), total - 1));
  const [playing, setPlaying] = useState(false);
  const [error, setError] = useState(null);
  const [, draw] = useState(0);
  const now = useRef(frame);
  const kept = useRef(null);
  const frames = useMemo(
    () => new Frames((n) => `api/recordings/${recording.id}/frames/${n}?width=${width}`, total, {
      arrived: (n) => { if (n === now.current) { setError(null); draw((each) => each + 1); } },
      failed: setError,
    }),
    [recording.id, width],
  );
  useEffect(() => {
    frames.want(now.current);
    return () => frames.close();
  }, [frames]);
  const seek = useCallback((n) => {
    const next = Math.min(total - 1, Math.max(0, Math.round(n)));
    frames.want(next, next < now.current ? -1 : 1);
    now.current = next;
    setFrame(next);
  }, [frames]);
  useEffect(() => {
    if (!playing) return undefined;
    let last = performance.now();
    let request = requestAnimationFrame(function tick(time) {
      const next = now.current + 1;
      if (next >= total) {
        setPlaying(false);
        return;
      }
      if (time - last >= 1000 / (recording.rate || 25) - 4 && frames.at(next)) {
        last = time;
        seek(next);
      }
      request = requestAnimationFrame(tick);
    });
    return () => cancelAnimationFrame(request);
  }, [playing, frames]);
  const image = frames.at(frame);
  if (image) kept.current = image;
  const last = kept.current?.width ? kept.current : null;
  return {
    frame, seek, playing, error, image: image || last, waiting: !image,
    toggle: () => {
      if (!playing && now.current >= total - 1) seek(0);
      setPlaying(!playing);
    },
    pause: () => setPlaying(false),
  };
}
