//! `/chat share`: the conversation as a document.

use super::*;

#[tokio::test]
async fn a_conversation_is_shared_as_a_new_file_of_the_workspace() {
    let stage = Stage::new(vec![says("an *answer*")]);
    stage.output("/chat share empty.md").await;
    assert!(!stage.project("empty.md").exists(), "nothing has been said");
    stage.turn("one").await;
    for (name, has) in [("a.md", "> one"), ("a.html", "<em>answer</em>"), ("a b.txt", "> one")] {
        stage.output(&format!("/chat share {name}")).await;
        let written = fs::read_to_string(stage.project(name)).unwrap();
        assert!(written.contains(has) && !written.contains(&format!("share {name}")), "{written}");
    }
    fs::write(stage.project("mine.md"), "mine").unwrap();
    let outside = stage.home.path().join("x.md");
    let outside = outside.to_str().unwrap();
    for refused in ["mine.md", "x.rs", "none/x.md", "../x.md", outside, ".md"] {
        stage.output(&format!("/chat share {refused}")).await;
    }
    let mut files: Vec<_> =
        fs::read_dir(stage.project("")).unwrap().map(|it| it.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["a b.txt", "a.html", "a.md", "mine.md"]);
    assert_eq!(fs::read_to_string(stage.project("mine.md")).unwrap(), "mine");
    assert!(!std::path::Path::new(outside).exists());
}
