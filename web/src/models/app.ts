/** Everything that is on screen, put together. */
import { effect, signal, untracked, type Signal } from "@preact/signals";
import { HubClient, HubError, randomId, type LinkState } from "../client";
import type { Hello } from "../wire";
import { Draft, type Written } from "./attachments";
import { NoticesModel } from "./notices";
import { Outbox } from "./outbox";
import { Route } from "./route";
import { SessionModel } from "./session";
import { SessionsModel } from "./sessions";
import { nameFrom } from "./titles";

export interface Problem { readonly no: number; readonly text: string }

export class App {
  readonly link = signal<LinkState>({ kind: "connecting" });
  readonly degraded = signal<string | null>(null);
  readonly hello = signal<Hello | null>(null);
  /** Names of the agents that were connected when the hub was last asked. */
  readonly served = signal<readonly string[]>([]);
  readonly session: Signal<SessionModel | null> = signal(null);
  /** Answers that the user should see, such as a refused action. */
  readonly problems = signal<readonly Problem[]>([]);
  /** The session being made, until the hub has answered. */
  readonly creating = signal<string | null>(null);
  readonly client: HubClient;
  readonly route = new Route();
  readonly sessions: SessionsModel;
  readonly notices: NoticesModel;
  readonly outbox: Outbox;
  #drafts = new Map<string, Draft>();
  #count = 0;
  #stops: (() => void)[] = [];

  constructor(token: string) {
    this.client = new HubClient({ token }, {
      state: (state) => { this.link.value = state; },
      hello: (hello) => {
        this.hello.value = hello;
        this.served.value = hello.agents ?? [];
      },
      degraded: (reason) => { this.degraded.value = reason; },
    });
    this.sessions = new SessionsModel(this.client);
    this.notices = new NoticesModel(this.client);
    this.outbox = new Outbox(this.client);
    this.#stops.push(effect(() => {
      const [context, creating] = [this.route.context.value, this.creating.value];
      untracked(() => this.#open(context, creating));
    }));
    const retry = (): void => { if (!document.hidden) this.client.retryNow(); };
    addEventListener("online", retry);
    document.addEventListener("visibilitychange", retry);
    this.#stops.push(() => removeEventListener("online", retry), () => document.removeEventListener("visibilitychange", retry));
    this.client.start();
  }

  dispose(): void {
    for (const stop of this.#stops) stop();
    this.session.peek()?.dispose();
    this.sessions.dispose();
    this.notices.dispose();
    this.route.dispose();
    this.client.stop();
  }

  /** Names of the agents that are served; at least one, so that there is something to start with. */
  get agents(): readonly string[] {
    const names = this.served.value;
    return names.length > 0 ? names : ["demo"];
  }

  /** Ask the hub again which agents are connected. */
  async askForAgents(): Promise<void> {
    try {
      this.served.value = await this.client.agents();
    } catch {
      // Then what it said before is the best there is.
    }
  }

  /** This user may look, and change nothing. */
  get readOnly(): boolean { return this.hello.value?.role === "viewer"; }

  /** What is being written to a session; null is the one to be made. */
  draft(context: string | null): Draft {
    const key = context ?? "";
    let draft = this.#drafts.get(key);
    if (!draft) this.#drafts.set(key, draft = new Draft(this.client, () => this.hello.peek()?.limits["upload_bytes"]));
    return draft;
  }

  /** Make a session and go there; with a message, that is its first. */
  create(agent: string, first?: Written): void {
    const id = randomId(8);
    const name = first ? nameFrom(first.text, first.attachments) : "";
    this.creating.value = id;
    this.route.go(id);
    this.client.createContext({ id, agent, ...(name && { name }) }).then(
      () => { if (this.creating.value === id) this.creating.value = null; },
      (error: unknown) => {
        if (this.creating.value === id) this.creating.value = null;
        this.tell(error);
      },
    );
    if (first) this.outbox.send(id, first.text, first.attachments);
  }

  async remove(context: string): Promise<void> {
    try {
      await this.client.removeContext(context, { patience: 15_000 });
      if (this.route.context.value === context) this.route.go(null, { replace: true });
    } catch (error) {
      this.tell(error);
    }
  }

  tell(error: unknown): void {
    const text = error instanceof HubError || error instanceof Error ? error.message : String(error);
    const problem = { no: ++this.#count, text };
    this.problems.value = [...this.problems.value.slice(-4), problem];
    setTimeout(() => this.forget(problem.no), 8_000);
  }

  forget(no: number): void {
    this.problems.value = this.problems.value.filter((problem) => problem.no !== no);
  }

  /** Watch the session that the address names; one that is being made can be watched once it is there. */
  #open(context: string | null, creating: string | null): void {
    const open = this.session.peek();
    const wanted = context === creating ? null : context;
    if (open?.id === wanted) return;
    open?.dispose();
    this.session.value = wanted === null ? null
      : new SessionModel(wanted, this.client, this.outbox, (error) => this.tell(error));
  }
}
