//! Claims about a worker's resources.

use super::*;

fn config(text: &str) -> Result<Config, String> {
    let text = format!("servers: [http://127.0.0.1:7070]\n{text}");
    let config = Config::from_yaml(&text).map_err(|e| e.to_string())?;
    config.check().map_err(|e| e.to_string())?;
    Ok(config)
}

#[test]
fn amounts_are_read_as_jobs_write_them() {
    for (text, thousandths) in [
        ("2", 2_000),
        ("0.5", 500),
        ("500m", 500),
        ("1.5k", 1_500_000),
        ("4Gi", 4_294_967_296_000),
        ("100M", 100_000_000_000),
    ] {
        assert_eq!(Amount::parse(text), Some(Amount(thousandths)), "{text}");
    }
    for bad in [
        "",
        "-1",
        "Gi",
        "1.2345",
        "1e3",
        "0.5m",
        "99999999999Ti",
        "two",
    ] {
        assert_eq!(Amount::parse(bad), None, "{bad}");
    }
}

#[test]
fn what_is_reserved_is_not_offered() {
    let text = "resources: { cpu: 8, memory: 64Gi, gpu/a100: 2, licence: 1.5 }\nreserve: { cpu: 1.5, licence: 1.5 }";
    let config = config(text).unwrap();
    let offered: Vec<(String, u64)> = config.offered().collect();
    let offered: Vec<(&str, u64)> = offered
        .iter()
        .map(|(name, n)| (name.as_str(), *n))
        .collect();
    assert_eq!(
        offered,
        [
            ("cpu", 6_500),
            ("gpu/a100", 2_000),
            ("memory", 68_719_476_736_000)
        ]
    );
    let written = serde_json::to_value(&config).unwrap();
    let again: Config = serde_json::from_value(written).unwrap();
    assert_eq!(
        (again.resources, again.reserve),
        (config.resources, config.reserve)
    );
}

#[test]
fn a_reserve_of_what_is_not_there_is_refused() {
    let wrong = |text, part: &str| {
        let said = config(text).unwrap_err();
        assert!(said.contains(part), "{said}");
    };
    wrong(
        "resources: { cpu: 8 }\nreserve: { memory: 1Gi }",
        "reserve.memory: there is no resource",
    );
    wrong(
        "resources: { cpu: 8 }\nreserve: { cpu: 9 }",
        "reserve.cpu: is more than there is",
    );
    wrong("resources: { cpu: many }", "500m or 4Gi");
}
