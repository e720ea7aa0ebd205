/** Waiting times that double up to a limit; each is spread by half its length to both sides. */
export class Backoff {
  #attempt = 0;

  constructor(
    private readonly options: { readonly first: number; readonly limit: number; readonly random?: () => number },
  ) {}

  get attempt(): number { return this.#attempt; }

  /** Milliseconds to wait now; `least` is what the other side asked for. */
  next(least = 0): number {
    const { first, limit, random = Math.random } = this.options;
    const base = Math.min(limit, first * 2 ** Math.min(this.#attempt, 16));
    this.#attempt += 1;
    return Math.round(Math.max(base * (0.5 + random()), least * (1 + random() / 2)));
  }

  reset(): void { this.#attempt = 0; }
}
