//! Every rule and every reason, one by one.

use super::*;
use portolan_model::Canonicalizer;
use proptest::prelude::*;

fn url(text: &str) -> CanonicalUrl {
    Canonicalizer::default().parse(text).expect(text)
}

/// The verdict on a plain link, one link away from the seed `https://www.example.org/docs/a.html`.
fn judge(settings: &ScopeSettings, text: &str) -> Result<i8, Reason> {
    judge_as(settings, text, 1, LinkKind::Anchor, false)
}

fn judge_as(
    settings: &ScopeSettings,
    text: &str,
    depth: u16,
    kind: LinkKind,
    nofollow: bool,
) -> Result<i8, Reason> {
    let root = url("https://www.example.org/docs/a.html");
    let scope = Scope::new(settings, [&root]).expect("good settings");
    match scope.verdict(&url(text), depth, kind, nofollow) {
        Verdict::Crawl { priority } => Ok(priority),
        Verdict::Exclude(reason) => Err(reason),
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn scope_follows_the_roots() {
    let places = [
        "http://www.example.org:8080/docs/b/c.html",
        "https://www.example.org/other",
        "https://api.example.org/docs/",
        "https://example.com/docs/",
    ];
    for (scope, within) in [
        (ScopeKind::Prefix, 1),
        (ScopeKind::Host, 2),
        (ScopeKind::Domain, 3),
        (ScopeKind::Any, 4),
    ] {
        let settings = ScopeSettings {
            scope,
            ..Default::default()
        };
        for (n, place) in places.iter().enumerate() {
            let expected = if n < within {
                Ok(0)
            } else {
                Err(Reason::OutOfScope)
            };
            assert_eq!(judge(&settings, place), expected, "{scope:?} {place}");
        }
    }
}

#[test]
fn roots_can_be_added_while_the_crawl_runs() {
    for scope in [ScopeKind::Host, ScopeKind::Domain, ScopeKind::Prefix] {
        let settings = ScopeSettings {
            scope,
            ..Default::default()
        };
        let mut compiled = Scope::new(&settings, []).expect("good settings");
        let target = url("https://example.com/a/b");
        let judged = |scope: &Scope| scope.verdict(&target, 1, LinkKind::Anchor, false);
        assert_eq!(judged(&compiled), Verdict::Exclude(Reason::OutOfScope));
        compiled.add_root(&url("http://example.com/a/"));
        assert_eq!(judged(&compiled), Verdict::Crawl { priority: 0 });
        // A narrower root changes nothing, a wider one takes the place of what it covers.
        compiled.add_root(&url("http://example.com/a/z/"));
        compiled.add_root(&url("http://example.com/"));
        assert_eq!(judged(&compiled), Verdict::Crawl { priority: 0 });
        if let Roots::Prefixes(prefixes) = &compiled.roots {
            assert_eq!(prefixes["example.com"], [Box::from("/")]);
        }
    }
}

#[test]
fn a_public_suffix_is_not_a_domain() {
    let settings = ScopeSettings {
        scope: ScopeKind::Domain,
        ..Default::default()
    };
    let scope = Scope::new(&settings, [&url("https://me.github.io/")]).expect("good settings");
    let judged = |text| scope.verdict(&url(text), 1, LinkKind::Anchor, false);
    assert_eq!(
        judged("https://www.me.github.io/x"),
        Verdict::Crawl { priority: 0 }
    );
    assert_eq!(
        judged("https://you.github.io/"),
        Verdict::Exclude(Reason::OutOfScope)
    );
}

#[test]
fn sites_are_chosen_and_shut_out() {
    let settings = ScopeSettings {
        scope: ScopeKind::Any,
        sites: strings(&["www.Example.org", "*.bücher.de"]),
        sites_shut_out: strings(&["*.bad.bücher.de"]),
        ..Default::default()
    };
    assert_eq!(judge(&settings, "http://www.example.org/"), Ok(0));
    assert_eq!(judge(&settings, "http://xn--bcher-kva.de/"), Ok(0));
    assert_eq!(judge(&settings, "http://a.b.bücher.de/"), Ok(0));
    for outside in ["http://example.org/", "http://xbücher.de/", "http://de/"] {
        assert_eq!(judge(&settings, outside), Err(Reason::OutOfScope));
    }
    for shut_out in ["http://bad.bücher.de/", "http://very.bad.bücher.de/"] {
        assert_eq!(judge(&settings, shut_out), Err(Reason::SiteShutOut));
    }
}

#[test]
fn include_and_exclude_search_the_whole_url() {
    let settings = ScopeSettings {
        include: strings(&["/docs/", "^https?://[^/]+/$"]),
        exclude: strings(&[r"\.pdf$", "(?i)/PRIVATE/"]),
        ..Default::default()
    };
    for (text, expected) in [
        ("http://www.example.org/", Ok(0)),
        ("http://www.example.org/docs/x", Ok(0)),
        ("http://www.example.org/x", Err(Reason::NotIncluded)),
        (
            "http://www.example.org/docs/x.pdf",
            Err(Reason::ExcludeRule),
        ),
        (
            "http://www.example.org/docs/private/",
            Err(Reason::ExcludeRule),
        ),
    ] {
        assert_eq!(judge(&settings, text), expected, "{text}");
    }
}

#[test]
fn depth_counts_links_and_directories() {
    let settings = ScopeSettings {
        max_directory_depth: Some(1),
        max_link_depth: Some(2),
        ..Default::default()
    };
    let near = "http://www.example.org/a/b";
    let at = |depth| judge_as(&settings, near, depth, LinkKind::Anchor, false);
    assert_eq!(at(2), Ok(0));
    assert_eq!(at(3), Err(Reason::LinkDepth));
    assert_eq!(at(u16::MAX), Err(Reason::LinkDepth));
    assert_eq!(
        judge(&settings, "http://www.example.org/a/b/"),
        Err(Reason::DirectoryDepth)
    );
}

#[test]
fn length_and_repetition_are_limited_by_default() {
    let settings = ScopeSettings::default();
    let of_length = |bytes| {
        let start = "http://www.example.org/";
        format!("{start}{}", "x".repeat(bytes - start.len()))
    };
    assert_eq!(judge(&settings, &of_length(2000)), Ok(0));
    assert_eq!(judge(&settings, &of_length(2001)), Err(Reason::UrlLength));
    let trap = "http://www.example.org/a/b/a/b/a/b";
    assert_eq!(judge(&settings, trap), Err(Reason::RepeatedSegments));
    let unlimited = ScopeSettings {
        max_repeated_segments: 0,
        ..Default::default()
    };
    assert_eq!(judge(&unlimited, trap), Ok(0));
}

#[test]
fn queries_have_rules() {
    let none = ScopeSettings {
        allow_query: false,
        ..Default::default()
    };
    let small = ScopeSettings {
        max_query_bytes: Some(7),
        max_query_parameters: Some(2),
        ..Default::default()
    };
    for (query, without, limited) in [
        ("", Ok(0), Ok(0)),
        ("?a", Err(Reason::QueryRule), Ok(0)),
        ("?a=1&b=2", Err(Reason::QueryRule), Ok(0)),
        ("?a=1&b=22", Err(Reason::QueryRule), Err(Reason::QueryRule)),
        ("?a&b&c", Err(Reason::QueryRule), Err(Reason::QueryRule)),
        ("?utm_source=dropped", Ok(0), Ok(0)),
    ] {
        let text = format!("http://www.example.org/{query}");
        assert_eq!(judge(&none, &text), without, "{query}");
        assert_eq!(judge(&small, &text), limited, "{query}");
    }
}

#[test]
fn reserved_text_extensions_and_ports_exclude() {
    let settings = ScopeSettings {
        reserved_url_text: strings(&["~", "cgi-bin", "ö"]),
        unwanted_extensions: strings(&["iso", ".ZIP"]),
        allowed_ports: vec![80, 443, 8080],
        ..Default::default()
    };
    for (rest, expected) in [
        ("/x", Ok(0)),
        ("/%7Euser", Err(Reason::ReservedUrlText)),
        ("/cgi-bin/x", Err(Reason::ReservedUrlText)),
        ("/schön", Err(Reason::ReservedUrlText)),
        ("/a.ISO", Err(Reason::ContentTypeByName)),
        ("/a.zip?x=y.html", Err(Reason::ContentTypeByName)),
        ("/iso", Ok(0)),
        (":8080/", Ok(0)),
        (":8081/", Err(Reason::NotFetchable)),
    ] {
        let text = format!("http://www.example.org{rest}");
        assert_eq!(judge(&settings, &text), expected, "{rest}");
    }
    assert_eq!(
        judge(&ScopeSettings::default(), "http://www.example.org:0/"),
        Err(Reason::NotFetchable)
    );
}

#[test]
fn ports_of_other_services_are_refused_unless_a_setting_names_them() {
    let settings = |allowed: &[u16], also: &[u16]| ScopeSettings {
        allowed_ports: allowed.to_vec(),
        also_ports: also.to_vec(),
        ..Default::default()
    };
    for (allowed, also, port, expected) in [
        (&[][..], &[][..], 8080, Ok(0)),
        (&[], &[], 22, Err(Reason::Port)),
        (&[], &[], 25, Err(Reason::Port)),
        (&[], &[], 6379, Err(Reason::Port)),
        (&[], &[6379], 6379, Ok(0)),
        (&[], &[6379], 25, Err(Reason::Port)),
        (&[], &[6379], 8080, Ok(0)),
        (&[6379], &[], 6379, Ok(0)),
        (&[6379], &[], 80, Err(Reason::NotFetchable)),
        (&[80], &[6379], 6379, Ok(0)),
    ] {
        let text = format!("http://www.example.org:{port}/");
        let found = judge(&settings(allowed, also), &text);
        assert_eq!(found, expected, "{allowed:?} {also:?} {port}");
    }
    // Not even a seed or its redirect goes there.
    for kind in [LinkKind::Seed, LinkKind::SeedRedirect] {
        let text = "http://www.example.org:22/";
        let found = judge_as(&ScopeSettings::default(), text, 0, kind, false);
        assert_eq!(found, Err(Reason::Port));
    }
}

#[test]
fn priorities_add_up_within_bounds() {
    let rule = |pattern: &str, priority| PriorityRule {
        pattern: pattern.to_owned(),
        priority,
    };
    let settings = ScopeSettings {
        priorities: vec![rule("/news/", 3), rule("archive", -5), rule("/top", 127)],
        ..Default::default()
    };
    for (path, priority) in [
        ("/x", 0),
        ("/news/", 3),
        ("/archive/", -5),
        ("/news/archive", -2),
        ("/news/top", 127),
    ] {
        let text = format!("http://www.example.org{path}");
        assert_eq!(judge(&settings, &text), Ok(priority), "{path}");
    }
}

#[test]
fn nofollow_is_respected_unless_told_otherwise() {
    let text = "http://www.example.org/x";
    let marked = |settings: &ScopeSettings, kind| judge_as(settings, text, 1, kind, true);
    let respectful = ScopeSettings::default();
    assert_eq!(marked(&respectful, LinkKind::Anchor), Err(Reason::NoFollow));
    assert_eq!(marked(&respectful, LinkKind::Seed), Ok(0));
    let bold = ScopeSettings {
        respect_nofollow: false,
        ..Default::default()
    };
    assert_eq!(marked(&bold, LinkKind::Anchor), Ok(0));
}

#[test]
fn seeds_pass_the_scope_and_obey_what_was_said() {
    let settings = ScopeSettings {
        include: strings(&["/docs/"]),
        exclude: strings(&["/private/"]),
        sites: strings(&["www.example.org"]),
        sites_shut_out: strings(&["*.bad.test"]),
        reserved_url_text: strings(&["~"]),
        allowed_ports: vec![80],
        allow_query: false,
        max_directory_depth: Some(0),
        max_url_bytes: 10,
        ..Default::default()
    };
    for (text, seed, redirect) in [
        ("http://other.test/x/y?z", Ok(0), Err(Reason::OutOfScope)),
        ("http://www.example.org/x/y?z", Ok(0), Ok(0)),
        (
            "http://www.example.org/private/",
            Err(Reason::ExcludeRule),
            Err(Reason::ExcludeRule),
        ),
        (
            "http://www.bad.test/",
            Err(Reason::SiteShutOut),
            Err(Reason::SiteShutOut),
        ),
        (
            "http://www.example.org/~x",
            Err(Reason::ReservedUrlText),
            Err(Reason::ReservedUrlText),
        ),
        (
            "https://www.example.org/",
            Err(Reason::NotFetchable),
            Err(Reason::NotFetchable),
        ),
    ] {
        let as_kind = |kind| judge_as(&settings, text, 0, kind, false);
        assert_eq!(as_kind(LinkKind::Seed), seed, "{text}");
        assert_eq!(as_kind(LinkKind::SeedRedirect), redirect, "{text}");
    }
}

#[test]
fn embeds_may_come_from_elsewhere_by_a_setting() {
    let image = "https://cdn.test/x.png";
    let closed = ScopeSettings {
        include: strings(&["/docs/"]),
        sites: strings(&["www.example.org"]),
        ..Default::default()
    };
    let open = ScopeSettings {
        embeds_off_scope: true,
        ..closed.clone()
    };
    let shut_out = ScopeSettings {
        sites_shut_out: strings(&["cdn.test"]),
        ..open.clone()
    };
    let embedded = |settings| judge_as(settings, image, 1, LinkKind::Embed, false);
    assert_eq!(embedded(&closed), Err(Reason::OutOfScope));
    assert_eq!(embedded(&open), Ok(0));
    assert_eq!(embedded(&shut_out), Err(Reason::SiteShutOut));
    assert_eq!(judge(&open, image), Err(Reason::OutOfScope));
}

#[test]
fn wrong_settings_are_named_in_one_sentence() {
    let error = |settings: ScopeSettings| {
        let error = Scope::new(&settings, []).expect_err("bad settings");
        error.to_string()
    };
    let patterns = error(ScopeSettings {
        exclude: strings(&["fine", "(broken"]),
        ..Default::default()
    });
    assert_eq!(
        patterns,
        "setting scope.exclude '(broken' is not a regular expression: unclosed group"
    );
    let huge = error(ScopeSettings {
        include: strings(&[r"(\w{1000}){1000}"]),
        ..Default::default()
    });
    assert!(huge.starts_with("setting scope.include "), "{huge}");
    let priority = error(ScopeSettings {
        priorities: vec![PriorityRule {
            pattern: "*".into(),
            priority: 1,
        }],
        ..Default::default()
    });
    assert!(priority.starts_with("setting scope.priorities '*' is not"));
    for site in [
        "",
        "http://x/",
        "x/y",
        "x:80",
        "a b",
        "*",
        "*.",
        "x.*",
        "me@x",
    ] {
        let sentence = error(ScopeSettings {
            sites_shut_out: strings(&[site]),
            ..Default::default()
        });
        assert!(
            sentence.starts_with(&format!(
                "the setting 'sites_shut_out' holds '{site}', which"
            )),
            "{sentence}"
        );
        assert!(!sentence.contains('\n'));
    }
}

#[test]
fn settings_are_plain_data() {
    let read: ScopeSettings =
        serde_json::from_str(r#"{"scope": "domain", "max_link_depth": 3}"#).expect("settings");
    assert_eq!(
        read,
        ScopeSettings {
            scope: ScopeKind::Domain,
            max_link_depth: Some(3),
            ..Default::default()
        }
    );
    let written = serde_json::to_string(&read).expect("plain data");
    assert_eq!(
        serde_json::from_str::<ScopeSettings>(&written).expect("settings"),
        read
    );
    let error = serde_json::from_str::<ScopeSettings>(r#"{"max_depth": 3}"#);
    assert!(error.is_err_and(|e| e.to_string().contains("max_depth")));
}

proptest! {
    #[test]
    fn any_url_gets_a_verdict(
        text in prop_oneof!["\\PC*", "(/[ab.%~]{0,3}){0,80}(\\?[a&=;]{0,9})?"],
        depth: u16,
        kind in prop::sample::select(LinkKind::ALL.to_vec()),
        nofollow: bool,
        max in 0usize..5,
        scope in prop::sample::select(vec![ScopeKind::Host, ScopeKind::Domain, ScopeKind::Prefix]),
    ) {
        let settings = ScopeSettings {
            scope,
            exclude: strings(&["a{3}"]),
            unwanted_extensions: strings(&["a"]),
            reserved_url_text: strings(&["~~"]),
            max_repeated_segments: max,
            max_query_parameters: Some(max),
            ..Default::default()
        };
        let root = url("https://example.org/a/");
        let scope = Scope::new(&settings, [&root]).expect("good settings");
        if let Ok(url) = Canonicalizer::default().resolve(&root, &text) {
            let first = scope.verdict(&url, depth, kind, nofollow);
            prop_assert_eq!(scope.verdict(&url, depth, kind, nofollow), first);
            let on_another_host = url.host() != "example.org";
            let is_source = kind == LinkKind::Sitemap;
            if on_another_host && scope_is_narrow(settings.scope) && !kind.is_seed() && !is_source {
                // The mark comes first, because only the reason remembers it.
                let reason = if nofollow { Reason::NoFollow } else { Reason::OutOfScope };
                prop_assert_eq!(first, Verdict::Exclude(reason));
            }
        }
    }
}

fn scope_is_narrow(kind: ScopeKind) -> bool {
    matches!(kind, ScopeKind::Host | ScopeKind::Prefix)
}
