//! Ready specs, by name. Only values here; what they mean is in `spec`.

use crate::spec::{
    ContentSpec, DiscoverySpec, FaultSpec, LatencySpec, LinkSpec, OddSpec, RobotsSpec, SpecError,
    TrapSpec, WebSpec,
};

impl WebSpec {
    /// Ten hosts of fifty plain pages: the quickest Web that is still one.
    pub fn small() -> Self {
        WebSpec {
            robots: RobotsSpec {
                forbidden_share: 0.05,
                ..RobotsSpec::default()
            },
            ..WebSpec::default()
        }
    }

    /// A few thousand pages with a bit of everything, none of it slow.
    pub fn demo() -> Self {
        WebSpec {
            hosts: 40,
            pages_per_host: 75,
            skew: 0.4,
            links: LinkSpec {
                per_page: 20,
                off_host_share: 0.2,
                locality: 0.6,
                alias_share: 0.15,
            },
            content: ContentSpec {
                page_bytes: 8_000,
                page_bytes_spread: 0.6,
                duplicate_share: 0.03,
                near_duplicate_share: 0.02,
                text_share: 0.01,
                binary_share: 0.01,
                wrong_type_share: 0.01,
                no_type_share: 0.01,
                noindex_share: 0.01,
                japanese_share: 0.02,
                gzip_share: 0.3,
                deflate_share: 0.05,
                brotli_share: 0.05,
                zstd_share: 0.05,
            },
            latency: LatencySpec {
                mean_ms: 2.0,
                host_spread: 0.8,
                answer_spread: 0.5,
                ..LatencySpec::default()
            },
            faults: FaultSpec {
                redirect_share: 0.04,
                error_share: 0.02,
                ..FaultSpec::default()
            },
            robots: RobotsSpec {
                forbidden_share: 0.03,
                allowed_exception_share: 0.01,
                odd_share: 0.2,
                crawl_delay_share: 0.05,
                crawl_delay_s: 0.05,
            },
            discovery: DiscoverySpec {
                sitemap_share: 0.4,
                sitemap_only_share: 0.02,
                feed_share: 0.2,
                feed_only_share: 0.01,
                gate_share: 0.03,
                nofollow_share: 0.01,
                image_share: 0.0,
                decoy_share: 0.05,
            },
            traps: TrapSpec {
                host_share: 0.1,
                calendar: true,
                calendar_months: 24,
                growing_path: true,
                session_ids: true,
            },
            odd: OddSpec {
                host_share: 0.15,
                page_share: 0.01,
                endless_bytes: 2 << 20,
                drip_pause_ms: 2,
                ..OddSpec::default()
            },
            ..WebSpec::default()
        }
    }

    /// 200 hosts of 500 pages of about 21 KB with 50 links and nothing unusual: what speed is measured on.
    pub fn bench() -> Self {
        WebSpec {
            hosts: 200,
            pages_per_host: 500,
            links: LinkSpec {
                per_page: 50,
                off_host_share: 0.2,
                locality: 0.5,
                alias_share: 0.0,
            },
            content: ContentSpec {
                page_bytes: 22_600,
                page_bytes_spread: 0.5,
                ..ContentSpec::default()
            },
            ..WebSpec::default()
        }
    }

    /// Everything nasty, in large shares.
    pub fn odd() -> Self {
        let demo = WebSpec::demo();
        WebSpec {
            hosts: 60,
            pages_per_host: 60,
            skew: 0.3,
            latency: LatencySpec::default(),
            links: LinkSpec {
                alias_share: 0.4,
                ..demo.links.clone()
            },
            content: ContentSpec {
                page_bytes: 3_000,
                duplicate_share: 0.06,
                near_duplicate_share: 0.03,
                text_share: 0.02,
                binary_share: 0.02,
                wrong_type_share: 0.02,
                no_type_share: 0.02,
                noindex_share: 0.02,
                japanese_share: 0.1,
                ..demo.content.clone()
            },
            faults: FaultSpec {
                redirect_share: 0.12,
                error_share: 0.08,
                ..FaultSpec::default()
            },
            robots: RobotsSpec {
                forbidden_share: 0.06,
                allowed_exception_share: 0.03,
                odd_share: 0.5,
                crawl_delay_share: 0.05,
                crawl_delay_s: 0.1,
            },
            discovery: DiscoverySpec {
                sitemap_share: 0.7,
                sitemap_only_share: 0.06,
                feed_share: 0.5,
                feed_only_share: 0.04,
                gate_share: 0.1,
                nofollow_share: 0.05,
                image_share: 0.04,
                decoy_share: 0.3,
            },
            traps: TrapSpec {
                host_share: 0.3,
                calendar_months: 0,
                ..demo.traps.clone()
            },
            odd: OddSpec {
                host_share: 0.5,
                page_share: 0.1,
                endless_bytes: 4 << 20,
                ..OddSpec::default()
            },
            ..demo
        }
    }

    pub fn preset(name: &str) -> Result<Self, SpecError> {
        match name {
            "small" => Ok(WebSpec::small()),
            "demo" => Ok(WebSpec::demo()),
            "bench" => Ok(WebSpec::bench()),
            "odd" => Ok(WebSpec::odd()),
            other => Err(SpecError::NoSuchPreset(other.into())),
        }
    }
}
