// Frames by number, fetched ahead of the eye and forgotten behind it.
import { getBlob } from "../api.js";

const AT_ONCE = 4;
const MEMORY = 160e6;

export class Frames {
  /** `address(n)` is where frame n lies; `arrived(n)` is called when one can be drawn, `failed(error)` when not. */
  constructor(address, total, { arrived, failed, first = 0 }) {
    Object.assign(this, { address, total, arrived, failed, first });
    this.pictures = new Map();
    this.onTheWay = new Map();
    this.wanted = [];
  }

  at(n) {
    return this.pictures.get(n);
  }

  /** Frame `n` now, `reach` more in the direction of the eye, and a few behind. */
  want(n, direction = 1, reach = 16) {
    const ahead = Array.from({ length: reach }, (_, i) => n + direction * (i + 1));
    const behind = [n - direction, n - 2 * direction, n - 3 * direction];
    this.wanted = [n, ...ahead, ...behind].filter((each) => each >= this.first && each < this.total);
    this.centre = n;
    for (const [each, stop] of this.onTheWay) if (!this.wanted.includes(each)) stop.abort();
    this.fetchMore();
  }

  fetchMore() {
    for (const n of this.wanted) {
      if (this.onTheWay.size >= AT_ONCE) return;
      if (!this.pictures.has(n) && !this.onTheWay.has(n)) this.fetchOne(n);
    }
  }

  async fetchOne(n) {
    const stop = new AbortController();
    this.onTheWay.set(n, stop);
    try {
      const picture = await createImageBitmap(await getBlob(this.address(n), stop.signal));
      if (stop.signal.aborted) return picture.close();
      this.pictures.set(n, picture);
      this.forget(picture.width * picture.height * 4);
      this.arrived(n);
    } catch (error) {
      if (error.name !== "AbortError" && n === this.centre) this.failed(error);
      if (error.name !== "AbortError") this.wanted = this.wanted.filter((each) => each !== n);
    } finally {
      this.onTheWay.delete(n);
    }
    if (!this.closed) this.fetchMore();
    return undefined;
  }

  forget(size) {
    const limit = Math.max(24, Math.floor(MEMORY / size));
    const far = [...this.pictures.keys()].sort((a, b) => Math.abs(b - this.centre) - Math.abs(a - this.centre));
    for (const n of far.slice(0, Math.max(0, this.pictures.size - limit))) {
      this.pictures.get(n).close();
      this.pictures.delete(n);
    }
  }

  close() {
    this.closed = true;
    this.wanted = [];
    this.onTheWay.forEach((stop) => stop.abort());
    this.pictures.forEach((picture) => picture.close());
    this.pictures.clear();
  }
}
