// Who stands where, read in blocks of frames. After an edit the old boxes stay until the new ones are there.
import { get } from "../api.js";

const BLOCK = 60;

export class Boxes {
  constructor(recording, frames, arrived) {
    Object.assign(this, { recording, frames, arrived });
    this.blocks = new Map();
    this.revision = null;
  }

  /** Boxes of frame `n`, possibly of the revision before; an empty list while nothing is known. */
  at(n) {
    return this.blocks.get(Math.floor(n / BLOCK))?.frames[String(n)] || [];
  }

  /** The revision that the boxes of frame `n` are of. */
  revisionAt(n) {
    return this.blocks.get(Math.floor(n / BLOCK))?.known ?? null;
  }

  want(n, revision) {
    this.revision = revision;
    const here = Math.floor(n / BLOCK);
    for (const block of [here, here + 1, here - 1]) {
      const first = block * BLOCK;
      if (first < 0 || first >= this.frames) continue;
      const known = this.blocks.get(block);
      if (known?.asked === revision) continue;
      this.blocks.set(block, { frames: known?.frames || {}, known: known?.known, asked: revision });
      this.read(block, first, revision);
    }
  }

  async read(block, first, revision) {
    const to = Math.min(first + BLOCK, this.frames) - 1;
    try {
      const { frames } = await get(`api/recordings/${this.recording}/people/boxes?from=${first}&to=${to}`);
      if (this.revision !== revision) return;
      this.blocks.set(block, { frames, known: revision, asked: revision });
      this.arrived();
    } catch {
      this.blocks.delete(block);
    }
  }
}
