//! Patterns for fields and hosts.

use super::super::fields::FieldPattern;
use super::super::host::HostPattern;
use super::super::verdict::Match::{Maybe, No, Yes};
use crate::describe::Field;

fn field(name: &str, value: Option<&str>) -> Field {
    Field { name: name.into(), value: value.map(str::to_owned) }
}

#[test]
fn fields() {
    let single = |value: &str| vec![field("", Some(value))];
    let both = |env: Option<&str>, region: Option<&str>| vec![field("env", env), field("region", region)];
    for (text, fields, expected) in [
        ("staging-*", single("staging-1"), Yes),
        ("staging-*", single("prod"), No),
        ("staging-*", vec![field("", None)], No),
        ("*", vec![field("", None)], No),
        ("*@example.com", single("a@example.com"), Yes),
        ("*@example.com", single("a@example.com.evil"), No),
        ("a=b", single("a=b"), Yes),
        ("a\\*", single("a*"), Yes),
        ("a\\*", single("ab"), No),
        ("/x/*", single("/x/y/z"), Yes),
        ("env=prod,region=eu-*", both(Some("prod"), Some("eu-1")), Yes),
        ("region=eu-*, env=prod", both(Some("prod"), Some("eu-1")), Yes),
        ("env=prod,region=eu-*", both(Some("prod"), Some("us-1")), No),
        ("env=prod,region=eu-*", both(Some("prod"), None), No),
        ("env=prod", both(Some("prod"), None), Yes),
        ("env=", both(Some(""), None), Yes),
        ("env=a\\,b", both(Some("a,b"), None), Yes),
        ("env=a=b", both(Some("a=b"), None), Yes),
        ("zone=1", both(Some("prod"), None), Maybe),
        ("zone=1,env=prod", both(Some("dev"), None), No),
        ("prod", both(Some("prod"), None), Maybe),
        ("prod", vec![], Maybe),
    ] {
        assert_eq!(FieldPattern::parse(text).unwrap().matches(&fields), expected, "{text} {fields:?}");
    }
    let names = |text: &str| FieldPattern::parse(text).unwrap().field_names().collect::<Vec<_>>().join(" ");
    assert_eq!(names("env=prod,region=eu-*"), "env region");
    assert_eq!(names("staging-*"), "");
    assert_eq!(names("https://x.test/?a=b"), "");
}

#[test]
fn hosts() {
    for (text, host, expected) in [
        ("api.example.com", "api.example.com", true),
        ("api.example.com", "API.Example.com.", true),
        ("api.example.com", "x.api.example.com", false),
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "a.b.example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", ".example.com", false),
        ("*.example.com", "xexample.com", false),
        ("*", "anything", true),
        ("::1", "::1", true),
        ("10.0.0.1", "10.0.0.12", false),
    ] {
        assert_eq!(HostPattern::parse(text).unwrap().matches(host), expected, "{text} {host}");
    }
}
