/** A titled section of the page. */
import type { ReactElement, ReactNode } from 'react';

export interface CardProps {
  title: string;
  aside?: ReactNode;
  children: ReactNode;
}

export function Card({ title, aside, children }: CardProps): ReactElement {
  return (
    <section className="runai-PageCard" aria-label={title}>
      <h2>
        {title} <span className="runai-Aside">{aside}</span>
      </h2>
      {children}
    </section>
  );
}
