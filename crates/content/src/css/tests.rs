use super::*;

#[test]
fn nothing_grows_with_the_style_sheet() {
    const LONGEST: usize = 64;
    let mut scanner = CssScanner::new(LONGEST);
    scanner.feed(b"image-set(", &mut |_| {});
    for _ in 0..10_000 {
        scanner.feed(b"([{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", &mut |_| {});
        scanner.feed(b"' url(xxxxxxxxxxxxxxxxxxxxxxxxxxxxx", &mut |_| {});
        scanner.feed(b")", &mut |_| {});
    }
    assert!(scanner.value.capacity() <= 4 * LONGEST);
    assert_eq!(scanner.blocks.len(), MAX_BLOCKS);
    assert!(scanner.deeper > 0);
}
