-- What a worker offers beside its handlers: {"labels":{…},"resources":{…}}; null: nothing.
alter table session add column offer text;
