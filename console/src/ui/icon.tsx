// The few pictures: drawn here, so that no font has to have them.

const DRAWN = {
  copy: "M5 5h8v8H5zM3 11V3h8",
  done: "M3 8.5l3.2 3.2L13 5",
  settings: "M2 4.5h5M11 4.5h3M2 11.5h3M9 11.5h5M9 2.8v3.4M7 9.8v3.4",
} as const;

export function Icon({ draw }: { draw: keyof typeof DRAWN }) {
  return (
    <svg
      width="16"
      height="16"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      aria-hidden="true"
    >
      <path d={DRAWN[draw]} />
    </svg>
  );
}
