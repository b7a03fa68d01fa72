-- count_grant: sessions were given so many more grants.
update session s set grant_seq = s.grant_seq + i.by
from unnest($1::bigint[], $2::bigint[]) i (id, by)
where s.id = i.id
