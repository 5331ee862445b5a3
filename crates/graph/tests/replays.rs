//! Replays: what each mode must and must not lose, and that orders are permutations of what can be reached.

mod small;

use portolan_graph::{
    Mode, ModeResult, ModeSettings, SyntheticSpec, WebGraph, draw_seeds, draw_seeds_of_parts,
    replay_modes, replay_orders,
};
use portolan_model::Order;

fn by_mode(results: &[ModeResult], mode: Mode) -> &ModeResult {
    results
        .iter()
        .find(|result| result.mode == mode)
        .expect("all modes")
}

fn web() -> WebGraph {
    SyntheticSpec::parse("pages=4000,links=24000,sites=100")
        .and_then(|spec| spec.graph())
        .expect("a graph")
}

#[test]
fn modes_on_a_chain_that_changes_sides_at_every_step() {
    // 0 -> 1 -> 2 -> 3, parts by turns: nothing is found without an exchange.
    let graph = small::plain(4, &[(0, 1), (1, 2), (2, 3)]);
    let results = replay_modes(&graph, &[0, 1, 0, 1], 2, &[0], ModeSettings::default());
    let firewall = by_mode(&results, Mode::Firewall);
    assert_eq!((firewall.coverage, firewall.urls_sent), (0.25, 0));
    let exchange = by_mode(&results, Mode::Exchange);
    assert_eq!((exchange.coverage, exchange.overlap), (1.0, 0.0));
    assert_eq!((exchange.urls_sent, exchange.messages), (3, 3));
    assert_eq!(exchange.bytes_sent, 3 * 17);
    let crossing = by_mode(&results, Mode::CrossOver);
    assert_eq!(
        (crossing.coverage, crossing.overlap, crossing.urls_sent),
        (1.0, 0.0, 0)
    );
    let server = by_mode(&results, Mode::ServerCentric);
    // Three links up, four pages down.
    assert_eq!((server.coverage, server.urls_sent), (1.0, 7));
}

#[test]
fn exchange_and_server_lose_nothing_and_repeat_nothing() {
    let graph = web();
    let part_of: Vec<u16> = (0..graph.pages.count())
        .map(|page| (graph.pages.site(page).expect("a site") % 6) as u16)
        .collect();
    let seeds = draw_seeds_of_parts(&part_of, 6, 2, 9);
    assert_eq!(seeds.len(), 12);
    let results = replay_modes(&graph, &part_of, 6, &seeds, ModeSettings::default());
    for mode in [Mode::Exchange, Mode::ServerCentric] {
        let result = by_mode(&results, mode);
        assert_eq!((result.coverage, result.overlap), (1.0, 0.0), "{result:?}");
        assert!(result.bytes_sent > 0);
    }
    assert!(by_mode(&results, Mode::Firewall).coverage < 1.0);
    assert!(by_mode(&results, Mode::CrossOver).overlap > 0.0);
    assert!(
        by_mode(&results, Mode::ServerCentric).bytes_sent
            > by_mode(&results, Mode::Exchange).bytes_sent
    );
    let again = replay_modes(&graph, &part_of, 6, &seeds, ModeSettings::default());
    assert_eq!(again, results);
}

#[test]
fn one_process_is_a_single_crawler_in_every_mode() {
    let graph = web();
    let part_of = vec![0; graph.pages.count() as usize];
    let settings = ModeSettings {
        exchange_every_pages: 1,
        ..ModeSettings::default()
    };
    for result in replay_modes(&graph, &part_of, 1, &[0], settings) {
        assert_eq!((result.coverage, result.overlap), (1.0, 0.0));
        assert!((result.quality_of_single - 1.0).abs() < 0.02, "{result:?}");
    }
}

#[test]
fn orders_reach_the_same_pages_and_the_knowing_one_sooner() {
    let graph = web();
    let seeds = draw_seeds(&graph, 8, 1);
    let orders = replay_orders(&graph, &seeds, &Order::ALL).expect("orders");
    assert!(orders.reachable > 1_000, "{}", orders.reachable);
    let at = |order: Order, place: usize| {
        let result = orders
            .results
            .iter()
            .find(|result| result.order == order)
            .expect("all orders");
        assert!(
            result.pagerank.windows(2).all(|pair| pair[0] <= pair[1]),
            "shares only grow"
        );
        assert!(
            (result.curve[100].1 - 100.0).abs() < 1e-6,
            "all is fetched in the end"
        );
        result.pagerank[place]
    };
    for order in Order::ALL {
        assert!(at(order, 3) > 0.0);
    }
    // At a tenth of the pages.
    assert!(at(Order::Pagerank, 3) > at(Order::Breadth, 3));
    assert_eq!(
        replay_orders(&graph, &seeds, &Order::ALL).expect("again"),
        orders
    );
}
