/** Gathers work until the next animation frame, so that a burst of changes is shown once. */

/** In a hidden page frames stop coming; then this many milliseconds later is soon enough. */
const HIDDEN_DELAY = 500;

export class Frame {
  #scheduled = false;
  #cancelled = false;

  constructor(private readonly work: () => void) {}

  /** See to it that `work` runs soon, once. */
  request(): void {
    if (this.#scheduled || this.#cancelled) return;
    this.#scheduled = true;
    let timer: ReturnType<typeof setTimeout>;
    let frame = 0;
    const run = (): void => {
      clearTimeout(timer);
      if (frame) cancelAnimationFrame(frame);
      this.#scheduled = false;
      if (!this.#cancelled) this.work();
    };
    timer = setTimeout(run, HIDDEN_DELAY);
    if (typeof requestAnimationFrame === "function") frame = requestAnimationFrame(run);
  }

  cancel(): void { this.#cancelled = true; }
}
