import { Component, type ComponentChild, type FunctionComponent } from "preact";

/** A component that renders again only for other props (or signals that it reads). */
export function memo<P extends object>(Inner: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const before = this.props as Record<string, unknown>;
      const after = next as Record<string, unknown>;
      const keys = Object.keys(after);
      return keys.length !== Object.keys(before).length || keys.some((key) => before[key] !== after[key]);
    }

    override render(): ComponentChild {
      return <Inner {...(this.props as P)} />;
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
