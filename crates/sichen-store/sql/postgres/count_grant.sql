-- count_grant: sessions were given so many more grants.
update session s set grant_seq = s.grant_seq + i.by
from (select unnest($1::bigint[]) as id, unnest($2::bigint[]) as by) i
where s.id = i.id
