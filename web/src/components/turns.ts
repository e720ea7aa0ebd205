/**
 * Work that takes turns with everything else: what one task of the browser does of it takes so long, the rest comes in
 * tasks of its own. The newest first: that is what somebody looks at.
 */

/** Milliseconds of a task. */
const SLICE = 20;

export class Turns {
  #waiting: (() => void)[] = [];
  #left = SLICE;
  #renewing = false;

  /** Do it now, if this task has time left for it, else in one of the next. */
  take(work: () => void): void {
    if (this.#left > 0 && this.#waiting.length === 0) this.#do(work);
    else this.#waiting.push(work);
    this.#renew();
  }

  #do(work: () => void): void {
    const began = performance.now();
    work();
    this.#left -= performance.now() - began;
  }

  #renew(): void {
    if (this.#renewing) return;
    this.#renewing = true;
    setTimeout(() => {
      this.#renewing = false;
      this.#left = SLICE;
      try {
        while (this.#left > 0) {
          const work = this.#waiting.pop();
          if (!work) return;
          this.#do(work);
        }
      } finally { // also if a work failed: the others still have theirs
        if (this.#left <= 0 || this.#waiting.length > 0) this.#renew();
      }
    }, 0);
  }
}
