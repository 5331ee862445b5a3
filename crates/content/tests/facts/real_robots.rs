//! robots.txt files of well-known sites, with expectations read off by hand.

use std::time::{Duration, Instant};

use portolan_content::Robots;

use crate::data;

struct Site {
    file: &'static str,
    token: &'static str,
    allowed: &'static [&'static str],
    forbidden: &'static [&'static str],
    delay_s: Option<u64>,
    sitemaps: usize,
}

const SITES: &[Site] = &[
    Site {
        file: "aviation-safety.net",
        token: "portolan",
        allowed: &[
            "/",
            "/photos/gallery.php",
            "/database/types/Douglas-DC-3/database/x",
        ],
        forbidden: &[
            "/cgi-bin/x",
            "/about/contact.php?a=b",
            "/database/types/Douglas-DC-3/database/x/y",
        ],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        file: "aviation-safety.net",
        token: "Googlebot",
        allowed: &["/", "/cgi-bin/x"],
        forbidden: &["/photos/gallery.php?id=1"],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        // `Crawl-delay` alone does not end Yandex's list of agents: Applebot's rule is also Yandex's.
        file: "aviation-safety.net",
        token: "yandex",
        allowed: &[],
        forbidden: &["/"],
        delay_s: Some(30),
        sitemaps: 0,
    },
    Site {
        // `Disallow: *`
        file: "aviation-safety.net",
        token: "ZoomBot",
        allowed: &["/robots.txt"],
        forbidden: &["/", "/x"],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        file: "cnet",
        token: "portolan",
        allowed: &["/", "/news/", "/search", "/products", "/roadshow/"],
        forbidden: &[
            "/search/?q=x",
            "/products/phone/",
            "/news/?sort=price-low",
            "/a/b/xhr/c",
            "/x/edit/",
            "/topics/?x&hub-preview-version=1",
            "/finder/a/?filter=1_2_3_4_5",
            "/es/noticias/",
            "/x/max-price=3",
        ],
        delay_s: None,
        sitemaps: 22,
    },
    Site {
        file: "ebay",
        token: "portolan",
        allowed: &[
            "/",
            "/itm/1234",
            "/signin/",
            "/urw/a/product-reviews/1",
            "/b/Phones/1",
            "/b/x?_mwBanner=1",
        ],
        forbidden: &[
            "/act/x",
            "/ads",
            "/signin/x",
            "/urw/a",
            "/itm/1/%7B",
            "/itm/a,b",
            "/b/x?a=1&b=2",
            "/x?rt=nc",
            "/x?rt%3Dnc",
            "/b/x?y=%7Cz",
            "/itm/1/[x",
            "/b/%EF%BC%8C",
        ],
        delay_s: None,
        sitemaps: 4,
    },
    Site {
        file: "ebay",
        token: "Twitterbot",
        allowed: &["/", "/act/x"],
        forbidden: &[],
        delay_s: None,
        sitemaps: 4,
    },
    Site {
        // The delay stands above all groups and so concerns nobody.
        file: "ipwatchdog",
        token: "portolan",
        allowed: &[
            "/",
            "/blog/",
            "/wp-content/themes/ipwatchdog/style.css?ver=4.1.1",
        ],
        forbidden: &[
            "/wp-admin/",
            "/u/31",
            "/u/310",
            "/op_light_speed.html",
            "/tag/women%E2%80%99s-history-month/",
            "/tag/women\u{2019}s-history-month/x",
            "/patents/US_7386902.pdf",
        ],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        file: "ipwatchdog",
        token: "ia_archiver",
        allowed: &[],
        forbidden: &["/"],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        file: "quora",
        token: "portolan",
        allowed: &["/", "/about", "/about/team", "/press", "/login/", "/signup"],
        forbidden: &[
            "/profile/X",
            "/press/x",
            "/What-is-a-portolan",
            "/aboutx",
            "/signup?x",
        ],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        file: "quora",
        token: "Googlebot",
        allowed: &["/", "/What-is-a-portolan", "/x/all_postsy", "/x/blogsy"],
        forbidden: &[
            "/ajax/x",
            "/x/log",
            "/x/y/followers",
            "/x/posts",
            "/x/posts/1",
            "/x/all_posts",
        ],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        file: "reddit",
        token: "portolan",
        allowed: &[
            "/",
            "/r/rust/",
            "/r/rust.rss",
            "/sitemaps/x.xml",
            "/posts/a",
            "/r/rust/submit/x",
        ],
        forbidden: &[
            "/x.json",
            "/r/rust/comments/1.rss",
            "/r/rust/submit",
            "/r/rust/submit/",
            "/login",
            "/domain/x?t=1",
            "/gold?x",
            "/x.xml",
            "/r/rust/comments/1?a&sort=new",
            "/?after=x",
        ],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        file: "reddit",
        token: "bender",
        allowed: &["/x.json"],
        forbidden: &["/my_shiny_metal_ass"],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        // 7,743 zero bytes in the middle of a rule.
        file: "sgppto",
        token: "portolan",
        allowed: &["/", "/events/", "/pto-event-calendar/"],
        forbidden: &[
            "/events/action~month/x",
            "/events/action~anything/",
            "/x?controller=ai1ec_exporter_controller&y",
            "/pto-event-calendar/action~poster/",
            "/upcoming/action~week/",
        ],
        delay_s: None,
        sitemaps: 0,
    },
    Site {
        file: "sgppto",
        token: "SemrushBot",
        allowed: &["/"],
        forbidden: &["/events/action~month/x"],
        delay_s: Some(60),
        sitemaps: 0,
    },
    Site {
        file: "substack",
        token: "portolan",
        allowed: &["/", "/p/a/comments", "/feed/podcast/1.rss", "/sign-in"],
        forbidden: &[
            "/action/x",
            "/publish",
            "/p/a/comment/1",
            "/feed/podcast/1/private/k.rss",
            "/subscribe?x",
            "/embed",
        ],
        delay_s: None,
        sitemaps: 2,
    },
    Site {
        file: "twitter",
        token: "portolan",
        allowed: &[
            "/",
            "/rustlang",
            "/rustlang?lang=en",
            "/hashtag/rust?src=hash",
            "/search?q=%23rust",
            "/i/api/x",
            "/search",
        ],
        forbidden: &[
            "/search?q=rust",
            "/rustlang?x",
            "/rustlang/followers",
            "/search/users",
            "/search/a/grid",
            "/oauth/x",
            "/i/u",
            "/i/users",
        ],
        delay_s: Some(1),
        sitemaps: 1,
    },
    Site {
        file: "zillow",
        token: "portolan",
        allowed: &["/", "/homes/", "/apple", "/b/x/y", "/app/x"],
        forbidden: &[
            "/?url=x",
            "/a_rect",
            "/x/_type/",
            "/a/b?searchQueryState=1",
            "/ads/",
            "/app?x",
            "/app",
            "/b/x/y_p/",
            "/a-qc/",
        ],
        delay_s: None,
        sitemaps: 14,
    },
];

#[test]
fn sites_say_what_they_mean() {
    let Some(folder) = data::folder("robots-real") else {
        return;
    };
    let mut cases = 0;
    for site in SITES {
        let name = format!("{}.robots.txt", site.file);
        let robots = Robots::parse(&data::read(&folder, &name), site.token);
        let compact = Robots::parse(robots.to_compact().as_bytes(), "anyone");
        let allowed = site.allowed.iter().map(|p| (p, true));
        for (path, expected) in allowed.chain(site.forbidden.iter().map(|p| (p, false))) {
            let verdict = robots.verdict(path);
            assert_eq!(
                verdict.allowed, expected,
                "{name} for {}: {path}: {verdict:?}",
                site.token
            );
            assert_eq!(compact.verdict(path), verdict, "{name} compact: {path}");
            cases += 1;
        }
        assert_eq!(
            robots.crawl_delay(),
            site.delay_s.map(Duration::from_secs),
            "{name} for {}",
            site.token
        );
        assert_eq!(robots.sitemaps().len(), site.sitemaps, "{name}");
        assert_eq!(compact.sitemaps(), robots.sitemaps(), "{name}");
        assert_eq!(compact.crawl_delay(), robots.crawl_delay(), "{name}");
        cases += 2;
    }
    let files = data::names(&folder).len();
    let judged: std::collections::HashSet<&str> = SITES.iter().map(|site| site.file).collect();
    assert_eq!(judged.len(), files, "every file has an expectation");
    println!("robots-real: {files} files, {cases} expectations hold");
}

/// Not a benchmark: says how long it took, and fails only where something grows out of hand.
#[test]
fn large_files_are_quick() {
    let Some(folder) = data::folder("robots-real") else {
        return;
    };
    for (file, token) in [
        ("ipwatchdog", "any"),
        ("quora", "Googlebot"),
        ("zillow", "any"),
        ("ebay", "any"),
    ] {
        let bytes = data::read(&folder, &format!("{file}.robots.txt"));
        let start = Instant::now();
        let robots = Robots::parse(&bytes, token);
        let parsed = start.elapsed();
        let start = Instant::now();
        const ROUNDS: u32 = 2000;
        let paths = [
            "/",
            "/2013/03/04/some-article-with-a-title/id=36501/",
            "/a/b/c.html?page=2&sort=x",
            "/What-is-it/answer/X-1",
        ];
        let mut allowed = 0;
        for _ in 0..ROUNDS {
            allowed += paths.iter().filter(|path| robots.allows(path)).count();
        }
        let each = start.elapsed() / (ROUNDS * paths.len() as u32);
        println!(
            "{file}: {} rules, parsed in {parsed:?}, {each:?} a path ({allowed})",
            robots.rule_count()
        );
        assert!(each < Duration::from_millis(1), "{file}: {each:?}");
    }
}
