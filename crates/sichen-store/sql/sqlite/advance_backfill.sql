-- advance_backfill: how far a backfill has come, and what became of its instants (guard: version ?2).
update backfill set state = ?3, ended_at = ?4, settled = ?5, cursor_at = ?6, top = ?7, next_at = ?8,
  created = created + ?9, filled = filled + ?10, reopened = reopened + ?11, reruns = reruns + ?12, left_alone = left_alone + ?13,
  ver = ver + 1
where id = ?1 and ver = ?2
