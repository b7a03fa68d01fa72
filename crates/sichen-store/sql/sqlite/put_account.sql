-- put_account: a user as he is now.
insert into account (name, document) values (?1, ?2) on conflict (name) do update set document = excluded.document
