-- put_alert: an alert as it is now.
insert into alert (name, document) values (?1, ?2) on conflict (name) do update set document = excluded.document
