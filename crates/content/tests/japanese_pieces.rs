//! Pieces of Japanese text in a page of another Japanese charset: how many come out right. The words are
//! the project's own; where the machine has message catalogues in Japanese, their texts are measured too.

use encoding_rs::{EUC_JP, Encoding, SHIFT_JIS, UTF_8};
use portolan_content::charset::decode_segment;
use std::collections::BTreeSet;
use std::path::Path;

const NOUNS: &[&str] = &[
    "日本",
    "東京",
    "大阪",
    "京都",
    "大学",
    "会社",
    "情報",
    "案内",
    "製品",
    "一覧",
    "検索",
    "地図",
    "写真",
    "天気",
    "予報",
    "新聞",
    "記事",
    "音楽",
    "映画",
    "旅行",
    "料理",
    "歴史",
    "文化",
    "経済",
    "政治",
    "社会",
    "教育",
    "研究",
    "科学",
    "技術",
    "開発",
    "言語",
    "文字",
    "漢字",
    "辞書",
    "翻訳",
    "図書館",
    "病院",
    "学校",
    "市役所",
    "電話",
    "番号",
    "住所",
    "郵便",
    "駅",
    "山",
    "川",
    "海",
    "空",
    "花",
    "鳥",
    "犬",
    "猫",
    "魚",
    "メニュー",
    "ホーム",
    "ページ",
    "リンク",
    "サイトマップ",
    "ニュース",
    "ゲーム",
    "ソフトウェア",
    "コンピュータ",
    "インターネット",
    "データベース",
    "プログラム",
    "パスワード",
    "ログイン",
    "カレンダー",
    "スポーツ",
    "テレビ",
    "カメラ",
    "レシピ",
    "ブログ",
    "おしらせ",
    "ひらがな",
    "くらし",
    "こども",
];
const LINKS: &[&str] = &["の", "と", "や", "・", "へ", "について ", "：", " "];
const ENDS: &[&str] = &[
    "",
    "です",
    "はこちら",
    "を見る",
    "(2)",
    "！",
    "のご案内",
    "に戻る",
    "について",
    "一覧",
    "ください。",
];
const LATIN: &[&str] = &[
    "café",
    "Zürich",
    "résumé",
    "Łódź",
    "naïve",
    "São Paulo",
    "crème brûlée",
];

/// Words alone, and phrases of one and two of them.
fn pieces() -> BTreeSet<String> {
    let mut pieces = BTreeSet::new();
    for (n, noun) in NOUNS.iter().enumerate() {
        for (m, end) in ENDS.iter().enumerate() {
            pieces.insert(format!("{noun}{end}"));
            let second = NOUNS[(n * 31 + m * 7) % NOUNS.len()];
            let link = LINKS[(n + m) % LINKS.len()];
            pieces.insert(format!("{noun}{link}{second}{end}"));
        }
    }
    pieces.extend(LATIN.iter().map(|word| (*word).to_owned()));
    pieces
}

/// Of the pieces that `written` can say, how many in a hundred are read as written on a page in `page`.
fn right_percent(
    pieces: &BTreeSet<String>,
    written: &'static Encoding,
    page: &'static Encoding,
) -> f64 {
    let (mut right, mut all, mut wrong) = (0, 0, Vec::new());
    for piece in pieces {
        let (bytes, _, unmappable) = written.encode(piece);
        // A charset that has two ways to write a sign does not give back what it was given.
        if unmappable || written.decode_without_bom_handling(&bytes).0 != *piece {
            continue;
        }
        all += 1;
        if decode_segment(&bytes, page) == *piece {
            right += 1;
        } else if wrong.len() < 5 {
            wrong.push(piece);
        }
    }
    let percent = 100.0 * f64::from(right) / f64::from(all.max(1));
    println!(
        "{} in a page in {}: {percent:.2} % of {all} pieces; wrong are {wrong:?}",
        written.name(),
        page.name(),
    );
    percent
}

/// Written, page, least percentage.
const AIMS: &[(&Encoding, &Encoding, f64)] = &[
    (UTF_8, SHIFT_JIS, 99.0),
    (UTF_8, EUC_JP, 99.0),
    (SHIFT_JIS, SHIFT_JIS, 99.9),
    (EUC_JP, EUC_JP, 99.9),
    (SHIFT_JIS, EUC_JP, 99.0),
    (EUC_JP, SHIFT_JIS, 96.0),
];

#[test]
fn pieces_of_another_charset_come_out_right() {
    let pieces = pieces();
    for (written, page, least) in AIMS {
        let percent = right_percent(&pieces, written, page);
        assert!(
            percent >= *least,
            "{} in {}: {percent}",
            written.name(),
            page.name()
        );
    }
}

#[test]
fn so_do_pieces_of_real_texts() {
    let folder = Path::new("/usr/share/locale/ja/LC_MESSAGES");
    let Ok(files) = std::fs::read_dir(folder) else {
        println!("not run: no message catalogues in Japanese");
        return;
    };
    let mut pieces = BTreeSet::new();
    for file in files.flatten() {
        let text = std::fs::read(file.path()).unwrap_or_default();
        // Messages end with a NUL; the originals and the table of places are not Japanese.
        for message in text.split(|&b| b == 0 || b == b'\n') {
            if let Ok(message) = std::str::from_utf8(message)
                && !message.is_ascii()
                && message.chars().count() < 60
            {
                let message = message.trim();
                pieces.insert(message.to_owned());
                let words = message.split(|c: char| c.is_ascii() || "、。「」（）".contains(c));
                pieces.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
            }
        }
    }
    let is_japanese = |c: char| ('\u{3041}'..='\u{30fe}').contains(&c);
    pieces.retain(|piece| piece.chars().any(is_japanese) || piece.chars().count() > 1);
    if pieces.len() < 1_000 {
        println!("not run: no message catalogues in Japanese");
        return;
    }
    for (written, page, _) in AIMS {
        let percent = right_percent(&pieces, written, page);
        assert!(
            percent >= 97.0,
            "{} in {}: {percent}",
            written.name(),
            page.name()
        );
    }
}
