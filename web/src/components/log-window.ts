/**
 * Which part of the log is on the page, and where it is scrolled to.
 *
 * Entries are rendered in chunks of 25 by their number, so that a new entry touches the last chunk only, and paging
 * in older ones none. At most MOST chunks are on the page. At the end of the log the view follows; elsewhere the
 * entry at the top of the view stays where it is, whatever comes or grows above it.
 */
import { batch, computed, signal } from "@preact/signals";
import type { LogModel } from "../models/log";

export const CHUNK = 25;
const AT_END = 6;
const MOST = 14;
/** Pixels from an edge of what is rendered at which more is. */
const NEAR = 700;
/** Pixels from the end that still count as the end. */
const END = 48;

export class LogWindow {
  readonly firstChunk = signal(0);
  readonly lastChunk = signal(0);
  readonly following = signal(true);
  #newestSeen = signal(-1);
  #scroller: HTMLElement | null = null;
  #content: HTMLElement | null = null;
  #observer: ResizeObserver | null = null;
  #anchor: { element: Element; top: number } | null = null;
  #lastTop = 0;

  /** Entries that came since the reader left the end. */
  readonly unseen = computed(() => (this.following.value ? 0 : Math.max(0, this.log.newest.value - this.#newestSeen.value)));

  constructor(private readonly log: LogModel) { this.update(); }

  attach(scroller: HTMLElement, content: HTMLElement): () => void {
    this.#scroller = scroller;
    this.#content = content;
    this.#observer = new ResizeObserver(() => this.#settle());
    this.#observer.observe(content);
    this.#observer.observe(scroller);
    scroller.addEventListener("scroll", this.#onScroll, { passive: true });
    this.#settle();
    return () => {
      this.#observer?.disconnect();
      scroller.removeEventListener("scroll", this.#onScroll);
    };
  }

  /** The log has other entries: move the window along. */
  update(): void {
    const newest = chunkOf(Math.max(this.log.first, this.log.first + this.log.cells.length - 1));
    const oldest = chunkOf(this.log.first);
    batch(() => {
      if (this.following.value) {
        this.lastChunk.value = newest;
        this.firstChunk.value = Math.max(oldest, newest - AT_END + 1);
      } else {
        const first = clamp(this.firstChunk.value, oldest, newest);
        this.firstChunk.value = first;
        this.lastChunk.value = clamp(newest, first, first + MOST - 1);
      }
    });
  }

  /** Go to the end and stay there. */
  toEnd(): void {
    this.#follow(true);
    this.update();
    requestAnimationFrame(() => this.#settle());
  }

  /** After rendering: keep the place, and see whether more should be on the page. */
  rendered(): void {
    this.#settle();
    this.#fill();
  }

  #onScroll = (): void => {
    const scroller = this.#scroller;
    if (!scroller) return;
    const { scrollTop } = scroller;
    const distance = scroller.scrollHeight - scrollTop - scroller.clientHeight;
    if (distance <= END && this.#atNewest()) this.#follow(true);
    else if (scrollTop < this.#lastTop - 1) this.#follow(false);
    this.#lastTop = scrollTop;
    this.#remember();
    this.#fill();
  };

  #atNewest(): boolean {
    return this.lastChunk.value >= chunkOf(this.log.newest.value);
  }

  #follow(following: boolean): void {
    if (this.following.value === following) return;
    this.log.atEnd = following;
    batch(() => {
      this.following.value = following;
      this.#newestSeen.value = this.log.newest.value;
    });
  }

  /** Sizes changed: stay at the end, or keep the entry at the top of the view where it was. */
  #settle(): void {
    const scroller = this.#scroller;
    if (!scroller) return;
    if (this.following.value) {
      scroller.scrollTop = scroller.scrollHeight;
    } else if (this.#anchor?.element.isConnected) {
      const moved = this.#anchor.element.getBoundingClientRect().top - scroller.getBoundingClientRect().top - this.#anchor.top;
      if (Math.abs(moved) >= 1) scroller.scrollTop += moved;
    }
    this.#lastTop = scroller.scrollTop;
    this.#remember();
  }

  #remember(): void {
    this.#anchor = null;
    if (this.following.value || !this.#scroller || !this.#content) return;
    const edge = this.#scroller.getBoundingClientRect().top;
    for (const chunk of this.#content.querySelectorAll(".log-chunk")) {
      if (chunk.getBoundingClientRect().bottom <= edge) continue;
      for (const element of chunk.children) {
        const { top, bottom } = element.getBoundingClientRect();
        if (bottom > edge) {
          this.#anchor = { element, top: top - edge };
          return;
        }
      }
    }
  }

  /** Near an edge of what is rendered: render more, or page in more. */
  #fill(): void {
    const scroller = this.#scroller;
    if (!scroller) return;
    if (scroller.scrollTop < NEAR && (!this.following.value || scroller.scrollHeight < scroller.clientHeight + NEAR)) {
      if (this.firstChunk.value > chunkOf(this.log.first)) {
        const first = Math.max(chunkOf(this.log.first), this.firstChunk.value - 2);
        batch(() => {
          this.firstChunk.value = first;
          this.lastChunk.value = Math.min(this.lastChunk.value, first + MOST - 1);
        });
      } else if (this.log.older.value === "idle") {
        void this.log.loadOlder();
      }
      return;
    }
    const distance = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
    const newest = chunkOf(this.log.newest.value);
    if (distance < NEAR && this.lastChunk.value < newest) {
      const last = Math.min(newest, this.lastChunk.value + 2);
      batch(() => {
        this.lastChunk.value = last;
        this.firstChunk.value = Math.max(this.firstChunk.value, last - MOST + 1);
      });
    }
  }
}

export function chunkOf(no: number): number {
  return Math.floor(Math.max(0, no) / CHUNK);
}

function clamp(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(value, most));
}
