//! Which signatures `#[kernel]` takes, and what it says about the others.

#[test]
fn signatures() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/accept/*.rs");
    cases.compile_fail("tests/reject/*.rs");
}
