// An address that names no view.
import { useWords } from "../i18n/words";
import { Empty } from "../ui/loaded";
import { To } from "../ui/parts";

export function Missing() {
  const { state, nav } = useWords();
  return <Empty action={<To to="/">{nav.overview}</To>}>{state.notFound}</Empty>;
}
