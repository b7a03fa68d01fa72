// A listing that comes in pages: its rows and a button that brings more, or that there is none.
import type { ReactNode } from "react";
import { Empty, Loaded } from "./loaded";
import { More } from "./parts";

interface Paged<T> {
  data: { pages: { items: T[] }[] } | undefined;
  error: Error | null;
  isPending: boolean;
  refetch: () => unknown;
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** All that has been read of a listing so far. */
export function itemsOf<T>(asked: Pick<Paged<T>, "data">): T[] {
  return asked.data?.pages.flatMap((page) => page.items) ?? [];
}

/** A `long` one reads on by itself (`long_rows.tsx`). `none` stands there only when nothing is left to read: a page that found nothing may have a next. */
export function Listing<T>({
  asked,
  none,
  more,
  long,
  children,
}: {
  asked: Paged<T>;
  none: ReactNode;
  more?: string;
  long?: boolean;
  children: (items: T[]) => ReactNode;
}) {
  const items = itemsOf(asked);
  return (
    <Loaded asked={asked}>
      {() =>
        items.length === 0 && !asked.hasNextPage ? (
          <Empty>{none}</Empty>
        ) : (
          <>
            {children(items)}
            {!long && <More asked={asked} word={more} />}
          </>
        )
      }
    </Loaded>
  );
}
