//! Expressions in words.

use sichen_core::schedule::cron::{Cron, Dialect, Language};

fn check(text: &str, dialect: Dialect, english: &str, chinese: &str) {
    let cron = Cron::parse(text, dialect, Some(1)).expect("a good expression");
    let said = |language| {
        cron.explain(language)
            .split([';', '；'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(said(Language::English), english, "{text}");
    assert_eq!(said(Language::Chinese), chinese, "{text}");
}

#[test]
fn words_say_what_will_happen() {
    use Dialect::{Crontab, Quartz, Seconds};
    check("30 2 * * *", Crontab, "at 02:30 every day", "每天 02:30");
    check("* * * * *", Crontab, "every minute every day", "每天每分钟");
    check("* * * * * *", Seconds, "every second every day", "每天每秒");
    check(
        "*/15 9-17 * * mon-fri",
        Crontab,
        "every 15 minutes from 09:00 to 17:59 on Monday to Friday",
        "每周一至周五09至17时内每 15 分钟",
    );
    check(
        "0 0 1,15 * *",
        Crontab,
        "at 00:00 on day 1 and 15 of the month",
        "每月 1、15 日 00:00",
    );
    check(
        "0 0 L 1,2 *",
        Crontab,
        "at 00:00 on the last day of the month in January and February",
        "1、2 月每月最后一天 00:00",
    );
    check(
        "0 9 1 * 1",
        Crontab,
        "at 09:00 on day 1 of the month, or on Monday (either is enough)",
        "每月 1 日或每周一（满足其一即可） 09:00",
    );
    check(
        "0 9 */2 * 1",
        Crontab,
        "at 09:00 every 2 days from day 1 of the month, if it also is Monday",
        "每月从 1 日起每 2 天且同时为每周一 09:00",
    );
    // CRON-007: one side covers all days.
    check("0 12 1-31 * 1", Crontab, "at 12:00 every day", "每天 12:00");
    check(
        "0 0 12 ? * 6#3 2027-2029",
        Quartz,
        "at 12:00 on the third Friday of the month in 2027 to 2029",
        "2027至2029 年每月第三个周五 12:00",
    );
    check(
        "0 0 30 2 *",
        Crontab,
        "never: no such date exists",
        "永不触发：不存在这样的日期",
    );
    check(
        "@every 90m",
        Crontab,
        "every 1h30m of elapsed time",
        "每隔 1小时30分钟（按实际流逝时间）",
    );
}
