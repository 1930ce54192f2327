//! Reading of pages and files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use expect_test::expect;

use super::{page, read, text, why_not};

#[tokio::test]
async fn a_page_is_read_as_text() {
    let html = r##"<!doctype html><html><head><title>The
        title</title><style>p { color: red }</style><script>if (a < b) alert("<p>")</script></head>
        <body><nav><a href="#skip">Skip</a></nav><h1>A <em>good</em> page</h1>
        <p>Some&nbsp;words, a <a href="/next?a=1&amp;b=2">link with <code>code</code></a>,<br>and
        <b>bold</b>ness.<p>Another.</p>
        <ul><li>one<li>two<ol><li>inner</li><li>more</ol></li></ul>
        <table><tr><th>name<th>value</tr><tr><td>a</td><td></td><td><div>1</div></td></tr></table>
        <pre><code>fn main() {
    x < y
}</code></pre><img src=x alt="a  picture"><svg><title>no</title><text>drawn</text></svg>
        <select><option>A<option>B</select><hr>The end &#x2713;</body></html>"##;
    expect![[r"
        The title

        Skip

        # A good page

        Some words, a [link with `code`](/next?a=1&b=2),
        and boldness.

        Another.

        - one
        - two
          1. inner
          2. more

        name | value
        a | | 1

        ```
        fn main() {
            x < y
        }
        ```

        [image: a picture]

        ---

        The end ✓"]]
    .assert_eq(&text(page("text/html; charset=utf-8", html)).await);
}

#[tokio::test]
async fn a_page_that_never_closes_anything_is_read() {
    let deep = format!("{}deep", "<div><b id=x><ul><li>".repeat(50_000));
    let read = text(page("text/html", deep)).await;
    assert_eq!(read.trim().trim_start_matches(['-', ' ']), "deep");
    assert_eq!(
        text(page("text/html", "<a href=/x>open <code>all<pre>the way")).await,
        "[open `all`](/x)\n\n```\nthe way\n```"
    );
    assert_eq!(
        text(page("text/html", "<code>ü<a href=/ä>x</code>y</a></p></ul></td>")).await,
        "`ü[x`y](/ä)"
    );
}

#[tokio::test]
async fn other_text_is_given_as_it_is() {
    let json = "{\"a\": \"<p>\"}";
    for kind in ["application/json", "application/ld+json", "text/plain", "image/svg+xml"] {
        assert_eq!(text(page(kind, json)).await, json);
    }
    assert_eq!(text(page("text/markdown", "# A\x1b[31m\x07b")).await, "# Ab");
}

#[tokio::test]
async fn what_is_not_said_to_be_anything_is_looked_at() {
    assert_eq!(text(page("application/octet-stream", "plain")).await, "plain");
    assert_eq!(text(page("", "\n<!DOCTYPE HTML><p>a</p><p>b")).await, "a\n\nb");
    let why = why_not(page("application/octet-stream", b"\x00\x01\x02".to_vec())).await;
    assert_eq!(why, "it is neither text nor an image or a PDF file.");
}

#[tokio::test]
async fn an_encoding_is_the_one_that_is_marked_said_or_guessed() {
    let latin = |text: &str| encoding_rs::WINDOWS_1252.encode(text).0.into_owned();
    let word = "déjà vu, garçon";
    for (kind, bytes) in [
        ("text/plain; charset=utf-8", word.as_bytes().to_vec()),
        ("text/plain; charset=\"iso-8859-1\"", latin(word)),
        // The server names no charset, an unknown charset, or a charset that cannot be right.
        ("text/plain; charset=utf-8", latin(word)),
        ("text/plain; charset=nonsense", latin(word)),
        ("text/plain", latin(word)),
        // A byte order mark outweighs the charset that the server names.
        ("text/plain; charset=iso-8859-1", [b"\xEF\xBB\xBF", word.as_bytes()].concat()),
        ("text/html", latin(&format!("<meta charset='windows-1252'><p>{word}"))),
        (
            "text/html",
            latin(&format!("<META http-equiv=x content=\"text/html; charset=latin1\">{word}")),
        ),
        // A page that is in UTF-16 could not contain this tag in single bytes, so the tag is ignored.
        ("text/html", format!("<meta charset=utf-16>{word}").into_bytes()),
    ] {
        assert_eq!(text(page(kind, bytes.clone())).await, word, "{kind}");
    }
    let sjis = encoding_rs::SHIFT_JIS.encode("これは日本語の文章です。").0.into_owned();
    assert_eq!(text(page("text/plain; charset=Shift_JIS", sjis)).await, "これは日本語の文章です。");
}

#[tokio::test]
async fn images_and_pdf_files_are_attached_and_nothing_else_is() {
    let png = b"\x89PNG\r\n\x1a\nrest".to_vec();
    let pdf = b"%PDF-1.7 rest".to_vec();
    for (said, bytes, kind) in [
        ("image/png", png.clone(), "image/png"),
        ("image/jpeg", png.clone(), "image/png"),
        ("application/octet-stream", pdf.clone(), "application/pdf"),
        ("application/pdf", pdf, "application/pdf"),
    ] {
        let output = read(page(said, bytes.clone())).await.unwrap();
        assert!(output.text.ends_with("is attached."), "{}", output.text);
        let [media] = &output.media[..] else { panic!("{:?}", output.media) };
        assert_eq!((media.mime_type.as_str(), &media.data), (kind, &BASE64_STANDARD.encode(bytes)));
    }
    let why = why_not(page("image/png", "<html>")).await;
    assert_eq!(why, "it is `image/png` of a form that no model takes.");
    let why = why_not(page("application/zip", "PK")).await;
    assert_eq!(why, "it is `application/zip`, which cannot be read.");
}

#[tokio::test]
async fn an_empty_page_is_said_to_be_empty() {
    assert!(read(page("text/html", "<p> </p>")).await.unwrap().text.ends_with("/x is empty."));
}
