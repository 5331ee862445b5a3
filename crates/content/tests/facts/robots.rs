//! crawler-commons' robots.txt files: every one parses, and says what its text means by RFC 9309. The files
//! come without expectations of their own, so there are no differences to declare; readings of ours that
//! one could argue with are marked.

use std::time::Duration;

use portolan_content::Robots;

use crate::data;

/// File, product token, paths that are allowed, paths that are not.
type Expectation = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const EXPECTATIONS: &[Expectation] = &[
    (
        "rfc9309-example-simple-robots.txt",
        "foobot",
        &["/example/page.html", "/example/allowed.gif"],
        &["/", "/example/", "/publications/"],
    ),
    (
        "rfc9309-example-simple-robots.txt",
        "barbot",
        &["/", "/example/other", "/x.gif"],
        &["/example/page.html"],
    ),
    (
        "rfc9309-example-simple-robots.txt",
        "BazBot",
        &["/"],
        &["/example/page.html"],
    ),
    (
        "rfc9309-example-simple-robots.txt",
        "quxbot",
        &["/", "/example/page.html", "/x.gif"],
        &[],
    ),
    (
        "rfc9309-example-simple-robots.txt",
        "other",
        &["/", "/publications/", "/x.gif?y", "/publications/x"],
        &["/x.gif", "/example/", "/example/x"],
    ),
    (
        "rfc9309-example-longest-match-robots.txt",
        "foobot",
        &["/example/page/", "/example/page/x.gif", "/"],
        &["/example/page/disallowed.gif"],
    ),
    (
        "rfc9309-example-rule-group-merging.txt",
        "ExampleBot",
        &["/"],
        &["/foo", "/bar", "/baz"],
    ),
    (
        "rfc9309-example-rule-group-merging.txt",
        "examplebot/2.0",
        &["/"],
        &["/foo", "/bar", "/baz"],
    ),
    (
        "rfc9309-example-rule-group-merging.txt",
        "bazbot",
        &["/foo", "/bar"],
        &["/baz"],
    ),
    (
        "rfc9309-example-rule-group-merging.txt",
        "other",
        &["/baz"],
        &["/foo", "/bar"],
    ),
    // The file's comment says that /login/ concerns mybot too, but that group does not name it.
    (
        "crawl-delay-group-merging.txt",
        "mybot",
        &["/login/"],
        &["/private/"],
    ),
    (
        "crawl-delay-group-merging.txt",
        "yourbot",
        &["/"],
        &["/private/", "/login/"],
    ),
    (
        "crawl-delay-group-merging.txt",
        "other",
        &["/private/", "/login/"],
        &[],
    ),
    (
        "extensions-group-merging.txt",
        "mybot",
        &["/"],
        &["/private/x", "/login/"],
    ),
    (
        "extensions-group-merging.txt",
        "yourbot",
        &["/"],
        &["/private/", "/login/"],
    ),
    (
        "extensions-group-merging.txt",
        "other",
        &["/llms.txt"],
        &["/", "/x"],
    ),
    ("merge-rules.txt", "testy", &[], &["/", "/foo/bar"]),
    (
        "merge-rules.txt",
        "wget",
        &["/foo/bar", "/ckh/bar", "/"],
        &["/tmp/bar"],
    ),
    (
        "merge-rules.txt",
        "other",
        &["/ckh/bar", "/"],
        &["/foo/bar", "/tmp/bar"],
    ),
    (
        "precedence-of-rules.txt",
        "testy",
        &["/foo/bar", "/foo/bar/x", "/"],
        &["/foo", "/foo/baz"],
    ),
    (
        "precedence-of-rules.txt",
        "wget",
        &["/foo", "/index.html"],
        &["/", "/other"],
    ),
    (
        "directive-typos-robots.txt",
        "bot1",
        &["/"],
        &["/desallow/", "/dissalow/"],
    ),
    (
        "directive-typos-robots.txt",
        "bot2",
        &["/"],
        &["/useragent/"],
    ),
    (
        "directive-typos-robots.txt",
        "bot3",
        &["/"],
        &["/useg-agent/"],
    ),
    (
        "directive-typos-robots.txt",
        "bot4",
        &["/"],
        &["/useragent-no-colon/"],
    ),
    (
        "format-errors-robots.txt",
        "bot1",
        &["/"],
        &["/whitespace-before-colon/", "/no-colon/"],
    ),
    (
        "format-errors-robots.txt",
        "bot2",
        &["/"],
        &["/no-colon-useragent/"],
    ),
    (
        "format-errors-robots.txt",
        "bot3",
        &["/whitespace-before-colon"],
        &["/"],
    ),
    (
        "extension-robots.txt",
        "mybot",
        &["/secret/"],
        &["/private/"],
    ),
    (
        "extension-robots.txt",
        "otherbot",
        &["/private/"],
        &["/admin/"],
    ),
    ("extended-standard-robots.txt", "bot1", &["/"], &[]),
    (
        "malformed-path.txt",
        "any",
        &["/wiki/"],
        &[
            "/wiki/Wikipedia_talk:Mediation_Committee/",
            "/wiki/Wikipedia_talk%3Mediation_Committee/x",
        ],
    ),
    ("many-user-agents.txt", "wget", &[], &["/", "/x"]),
    ("many-user-agents.txt", "BlowFish", &[], &["/"]),
    (
        "many-user-agents.txt",
        "any",
        &["/", "/index.php"],
        &["/bot-trap/x", "/g/", "/home.php", "/lang/de/lang/"],
    ),
    (
        "robots-with-utf8-bom.txt",
        "any",
        &["/", "/output/print"],
        &["/login.aspx", "/profile/1", "/a/output/print"],
    ),
    (
        "robots-with-utf16le-bom.txt",
        "any",
        &["/", "/output/print"],
        &["/login.aspx", "/profile/1", "/a/output/print"],
    ),
    (
        "robots-with-utf16be-bom.txt",
        "any",
        &["/", "/output/print"],
        &["/login.aspx", "/profile/1", "/a/output/print"],
    ),
    (
        "robots-with-utf16be-bom.txt",
        "googlebot",
        &["/"],
        &["/search.aspx"],
    ),
    (
        "relative-sitemap-robots.txt",
        "any",
        &["/"],
        &["/cache/", "/files/x"],
    ),
    (
        "twitter.com-robots.txt",
        "any",
        &["/someone"],
        &["/someone?x", "/someone/with_friends"],
    ),
    (
        "www.flot.com-robots.txt",
        "any",
        &["/"],
        &["/admin/", "/img/x.png"],
    ),
    (
        "wildcards.txt",
        "any",
        &[
            "/",
            "/wishlist/universal",
            "/wishlist/universal-x",
            "/gp/wishlist/ipad-install",
            "/exec/obidos",
            "/sim/B001132UEE",
        ],
        &[
            "/wishlist/x",
            "/gp/registry/wishlist/a/reserve",
            "/gcrnsts",
            "/a/gcrnsts",
            "/a/b/gcrnsts?x",
            "/gp/cart/view",
            "/dp/shipping/",
        ],
    ),
    (
        "wildcards.txt",
        "googlebot",
        &["/rss/people/reviews"],
        &["/rss/people/x/reviews", "/a/sim/B001132UEE", "/gp/aw/cr/"],
    ),
    ("wildcards.txt", "EtaoSpider", &[], &["/", "/anything"]),
];

const DELAYS_MS: &[(&str, &str, Option<u64>)] = &[
    ("astore.amazon.com-robots.txt", "any", Some(5000)),
    ("crawl-delay-group-merging.txt", "mybot", Some(10_000)),
    // Named in the same group, but below the delay.
    ("crawl-delay-group-merging.txt", "yourbot", None),
    ("crawl-delay-group-merging.txt", "other", Some(30_000)),
    ("dos-line-endings.txt", "any", Some(1000)),
    ("twitter.com-robots.txt", "slurp", Some(1000)),
    ("twitter.com-robots.txt", "msnbot", Some(10_000)),
    ("twitter.com-robots.txt", "googlebot", None),
    ("twitter.com-robots.txt", "any", None),
];

const SITEMAPS: &[(&str, &[&str])] = &[
    (
        "sitemap-robots-dedup.txt",
        &["http://example.org/sitemap.xml"],
    ),
    (
        "sitemap-robots.txt",
        &[
            "http://domain.com/sitemap.xml",
            "http://domain.com/dir/my-sitemap.xml",
            "http://domain.com/dir/MixedCased-sitemap.xml",
        ],
    ),
    ("relative-sitemap-robots.txt", &["/sitemap.xml"]),
    ("extension-robots.txt", &["/sitemap.xml"]),
    ("format-errors-robots.txt", &["/sitemap.xml"]),
    (
        "robots-with-utf16le-bom.txt",
        &["http://www.newsweek.com/sitemap_index.xml"],
    ),
    (
        "robots-with-utf8-bom.txt",
        &["http://www.newsweek.com/sitemap_index.xml"],
    ),
    (
        "www.flot.com-robots.txt",
        &["http://flot.com/sitemap_index.xml"],
    ),
];

#[test]
fn every_file_says_what_it_means() {
    let Some(folder) = data::folder("crawler-commons/robots") else {
        return;
    };
    let mut cases = 0;
    for (file, token, allowed, forbidden) in EXPECTATIONS {
        let robots = Robots::parse(&data::read(&folder, file), token);
        let compact = Robots::parse(robots.to_compact().as_bytes(), "anyone");
        let expected = allowed
            .iter()
            .map(|p| (p, true))
            .chain(forbidden.iter().map(|p| (p, false)));
        for (path, expected) in expected {
            let verdict = robots.verdict(path);
            assert_eq!(
                verdict.allowed, expected,
                "{file} for {token}: {path}: {verdict:?}"
            );
            assert_eq!(compact.verdict(path), verdict, "{file} compact: {path}");
            cases += 1;
        }
    }
    for (file, token, delay_ms) in DELAYS_MS {
        let robots = Robots::parse(&data::read(&folder, file), token);
        assert_eq!(
            robots.crawl_delay(),
            delay_ms.map(Duration::from_millis),
            "{file} for {token}"
        );
        cases += 1;
    }
    for (file, sitemaps) in SITEMAPS {
        let robots = Robots::parse(&data::read(&folder, file), "any");
        assert_eq!(robots.sitemaps(), *sitemaps, "{file}");
        cases += 1;
    }
    println!("crawler-commons/robots: {cases} expectations hold");
}

#[test]
fn every_file_survives_its_compact_form() {
    let Some(folder) = data::folder("crawler-commons/robots") else {
        return;
    };
    let names = data::names(&folder);
    for name in &names {
        for token in ["any", "bot1", "mybot", "googlebot"] {
            let robots = Robots::parse(&data::read(&folder, name), token);
            let compact = robots.to_compact();
            let again = Robots::parse(compact.as_bytes(), "anyone");
            assert_eq!(again.to_compact(), compact, "{name}");
            assert_eq!(again.rule_count(), robots.rule_count(), "{name}");
        }
    }
    assert_eq!(names.len(), 24);
    println!("crawler-commons/robots: {} files parsed", names.len());
}
