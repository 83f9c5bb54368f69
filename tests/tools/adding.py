#!/usr/bin/env python3
"""Adding files, pages and documents, through the real program and a web server of the test."""
import http.server
import json
import os
import signal
import subprocess
import threading
import time
import zipfile

from called import program, run_topic

PDF = (b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
       b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj\n"
       b"4 0 obj<</Length 42>>stream\nBT /F1 24 Tf 20 100 Td (Hello PDF) Tj ET  \nendstream endobj\n"
       b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n")


class Pages(http.server.BaseHTTPRequestHandler):
    content = {}
    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        status, kind, body = self.content.get(self.path, (404, "text/plain", b"no"))
        self.send_response(status)
        if status in (301, 302):
            self.send_header("Location", kind)
            kind = "text/plain"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server:
    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Pages.content = {}
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def write(world, name, content):
    path = world.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    return path


def add(world, *words, status=0):
    return json.loads(world.run("context", "a", "add", *words, "--json", status=status))


def a_folder_is_added_and_added_again(world):
    write(world, "p/a.md", b"# A\n")
    write(world, "p/sub/b.txt", "gr\u00fcn\n".encode("latin-1"))
    write(world, "p/.gitignore", b"*.log\n")
    write(world, "p/x.log", b"x")
    report = add(world, "p")
    assert (report["added"], report["ignored"], report["failures"]) == (3, 1, []), report
    top = "disk:" + os.path.realpath(world.path("p"))
    assert world.run("context", "a", "read", top + "/sub/b.txt") == "gr\u00fcn\n".encode()
    info = world.tool("context_info", {"path": top + "/a.md"})
    assert info["title"] == "A" and info["source"] == os.path.realpath(world.path("p/a.md")), info
    assert add(world, "p")["unchanged"] == 3
    assert world.run("context", "a", "add", "nothing-here", status=1) == b""


def one_failure_does_not_stop_the_rest(world):
    write(world, "p/a.md", b"one\n")
    write(world, "q/b.md", b"two\n")
    with Server() as web:
        Pages.content["/page"] = (200, "text/plain", b"page\n")
        wrong = ["nothere", web.url + "/missing", "https://", "http://127.0.0.1:1/none", "/dev/null"]
        words = ["p", *wrong, web.url + "/page", "q/b.md"]
        report = add(world, *words, "--allow-private", status=1)
        assert report["added"] == 3, report
        assert [failure["what"] for failure in report["failures"]] == wrong, report
        assert all(failure["message"] for failure in report["failures"]), report
        assert world.run("context", "a", "read", web.url + "/page") == b"page\n"
        told = subprocess.run([program(), "context", "a", "add", *words, "--allow-private"], cwd=world.dir, env=world.env,
                              capture_output=True, timeout=60, text=True)
        assert told.returncode == 1 and told.stdout.startswith("0 added, 0 replaced, 3 unchanged"), told
        assert [one for one in wrong if f"warren: {one}: " not in told.stderr] == [], told.stderr
        refused = json.loads(world.run("context", "a", "add", "p", web.url + "/page", "--json", status=1))
        assert refused["unchanged"] == 1 and "--allow-private" in refused["failures"][0]["hint"], refused
        # The same for items that are refreshed.
        Pages.content["/other"] = (200, "text/plain", b"other\n")
        assert add(world, web.url + "/other", "--allow-private")["added"] == 1
        Pages.content["/other"] = (200, "text/plain", b"newer\n")
        Pages.content["/page"] = (404, "text/plain", b"gone")
        report = json.loads(world.run("context", "a", "refresh", web.url + "/page", web.url + "/other", "--allow-private",
                                      "--json", status=1))
        assert report["replaced"] == 1 and len(report["failures"]) == 1, report


RUSSIAN = "Привет, мир. Это обычный русский текст в старой кодировке.\n"
UNKNOWN = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D]) * 12
JAPANESE = "これは日本語のテキストです。文字コードを調べます。\n"


def text_of_files_in_other_encodings_is_read_and_found(world):
    world.env["WARREN_EMBED"] = "none"
    write(world, "e/koi.txt", RUSSIAN.encode("koi8-r"))
    write(world, "e/sjis.txt", JAPANESE.encode("shift_jis"))
    write(world, "e/page.html", '<html><head><meta charset="koi8-r"><title>Мир</title></head><p>лодка</html>'.encode("koi8-r"))
    write(world, "e/old.xml", '<?xml version="1.0" encoding="iso-8859-2"?>\n<a>łódź</a>\n'.encode("iso-8859-2"))
    write(world, "e/unknown.txt", UNKNOWN)
    report = add(world, "e", "--drive", "d")
    assert report["added"] == 5 and report["failures"] == [], report
    assert [os.path.basename(one["what"]) for one in report["warnings"]] == ["unknown.txt"], report
    assert world.run("context", "a", "read", "d:/e/koi.txt").decode() == RUSSIAN
    assert world.run("context", "a", "read", "d:/e/sjis.txt").decode() == JAPANESE
    assert "łódź" in world.run("context", "a", "read", "d:/e/old.xml").decode()
    assert world.tool("context_info", {"path": "d:/e/page.html"})["title"] == "Мир"
    assert world.tool("context_info", {"path": "d:/e/koi.txt"})["mime"] == "text/plain"
    assert [hit["ref"] for hit in world.tool("search", {"query": "лодка"})["results"]] == ["d:/e/page.html"]
    assert [hit["ref"] for hit in world.tool("search", {"query": "русский"})["results"]] == ["d:/e/koi.txt"]
    assert world.run("fs", "a", "cat", "/context/d/e/unknown.txt") == UNKNOWN
    # The index reads files of any door the same way.
    world.run("fs", "a", "write", "/plain.txt", "-", data=RUSSIAN.replace("мир", "кит").encode("koi8-r"))
    assert b"/plain.txt" in world.run("context", "a", "search", "кит")


def an_item_that_was_changed_here_is_not_replaced(world):
    write(world, "p/a.md", b"one\n")
    write(world, "p/b.md", b"one\n")
    add(world, "p", "--drive", "d")
    world.tool("context_write", {"path": "d:/p/a.md", "content": "mine\n", "on_conflict": "overwrite"})
    world.run("fs", "a", "write", "/context/d/p/b.md", "-", data=b"mine\n")
    assert add(world, "p", "--drive", "d", "--on-conflict", "skip")["skipped"] == 2
    write(world, "p/a.md", b"two\n")
    write(world, "p/b.md", b"two\n")
    report = add(world, "p", "--drive", "d", status=1)
    assert len(report["failures"]) == 2 and report["replaced"] == 0, report
    for name in ("a", "b"):
        assert world.run("context", "a", "read", f"d:/p/{name}.md") == b"mine\n"
    assert add(world, "p", "--drive", "d", "--on-conflict", "overwrite")["replaced"] == 2
    assert add(world, "p", "--drive", "d")["unchanged"] == 2
    # Changed here to what the source becomes: nothing is left to protect.
    world.tool("context_write", {"path": "d:/p/a.md", "content": "three\n", "on_conflict": "overwrite"})
    write(world, "p/a.md", b"three\n")
    assert add(world, "p", "--drive", "d")["unchanged"] == 2
    write(world, "p/a.md", b"four\n")
    assert add(world, "p", "--drive", "d")["replaced"] == 1


def a_document_gives_its_text(world):
    write(world, "d/doc.pdf", PDF)
    write(world, "d/page.html", b"<html><head><title>The page</title></head><body><h1>Head</h1><p>one <b>two</b></body>")
    add(world, "d", "--drive", "docs")
    page = world.tool("context_read", {"path": "docs:/d/page.html", "extract": True})
    assert page["content"] == "# Head\n\none two\n" and page["is_extracted"], page
    assert "<h1>" in world.tool("context_read", {"path": "docs:/d/page.html"})["content"]
    assert world.tool("context_info", {"path": "docs:/d/page.html"})["title"] == "The page"
    pdf = world.tool("context_read", {"path": "docs:/d/doc.pdf"})
    assert "Hello PDF" in pdf["content"] and pdf["mime"] == "application/pdf", pdf
    write(world, "d/broken.pdf", PDF[:60])
    add(world, "d/broken.pdf", "--drive", "docs")
    error = world.fails("context_read", {"path": "docs:/broken.pdf"})
    assert error["error_type"] == "invalid_argument" and "PDF" in error["message"], error


def office_documents_are_read_and_searched(world):
    world.env["WARREN_EMBED"] = "none"
    os.makedirs(world.path("o"))
    with zipfile.ZipFile(world.path("o/letter.docx"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", '<?xml version="1.0"?><w:document xmlns:w="w"><w:body><w:p><w:r><w:t>Dear quokka,'
                         "</w:t></w:r></w:p><w:p><w:r><w:t>hello</w:t></w:r></w:p></w:body></w:document>")
    with zipfile.ZipFile(world.path("o/bomb.docx"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", '<?xml version="1.0"?><a>' + " " * (300 << 20) + "</a>")
    write(world, "o/hello.pdf", PDF)
    with zipfile.ZipFile(world.path("o/notes.docx"), "w") as archive:
        archive.writestr("word/document.xml",
                         '<?xml version="1.0"?><w:document xmlns:w="w"><w:body><w:p><w:r><w:t>kept </w:t></w:r><w:del><w:r><w:delText>numbat'
                         '</w:delText></w:r></w:del><w:moveFrom><w:r><w:t>away</w:t></w:r></w:moveFrom><w:ins><w:r><w:t>a &lt; b</w:t></w:r></w:ins>'
                         '<w:r><w:footnoteReference w:id="2"/></w:r></w:p></w:body></w:document>')
        archive.writestr("word/footnotes.xml",
                         '<?xml version="1.0"?><w:footnotes xmlns:w="w"><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote>'
                         '<w:footnote w:id="2"><w:p><w:r><w:t>see the bilby</w:t></w:r></w:p></w:footnote></w:footnotes>')
        archive.writestr("word/endnotes.xml",
                         '<w:endnotes xmlns:w="w"><w:endnote w:id="1"><w:p><w:r><w:t>the end</w:t></w:r></w:p>'
                         "</w:endnote></w:endnotes>")
    add(world, "o", "--drive", "docs")
    letter = world.tool("context_read", {"path": "docs:/o/letter.docx"})
    assert letter["content"] == "Dear quokka,\nhello\n" and letter["is_extracted"], letter
    notes = world.tool("context_read", {"path": "docs:/o/notes.docx"})["content"]
    assert notes == "kept a < b[^2]\n[^2]: see the bilby\n[^e1]: the end\n", notes
    assert [hit["ref"] for hit in world.tool("search", {"query": "bilby"})["results"]] == ["docs:/o/notes.docx"]
    assert world.tool("search", {"query": "numbat"})["results"] == []
    error = world.fails("context_read", {"path": "docs:/o/bomb.docx"})
    assert error["error_type"] == "invalid_argument", error
    assert [hit["ref"] for hit in world.tool("search", {"query": "quokka"})["results"]] == ["docs:/o/letter.docx"]
    assert "docs:/o/hello.pdf" in [hit["ref"] for hit in world.tool("search", {"query": "Hello PDF"})["results"]]


def every_cell_of_a_workbook_is_read(world):
    sheet = ('<worksheet xmlns="m"><sheetData><row><c t="s"><v>0</v></c><c><v>42.5</v></c></row>'
             '<row><c t="inlineStr"><is><t>inline</t></is></c><c t="b"><v>1</v></c></row></sheetData></worksheet>')
    parts = {"[Content_Types].xml": "<Types/>",
             "xl/workbook.xml": '<workbook xmlns:r="r"><sheets><sheet name="Prices" r:id="r1"/>'
                                '<sheet name="Gone" r:id="r2"/></sheets></workbook>',
             "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="r1" Target="worksheets/sheet1.xml"/>'
                                           '<Relationship Id="r2" Target="../../etc/passwd"/></Relationships>',
             "xl/worksheets/sheet1.xml": sheet}

    def make(name, members):
        with zipfile.ZipFile(world.path(name), "w", zipfile.ZIP_DEFLATED) as made:
            for member, text in members.items():
                made.writestr(member, text)

    make("plain.xlsx", parts)
    make("shared.xlsx", {**parts, "xl/sharedStrings.xml": "<sst><si><r><t>apri</t></r><r><t>cot</t></r></si></sst>"})
    gaps = ('<row><c r="A1"><v>1</v></c><c r="C1"><v>3</v></c></row><row><c r="B2"><v>2</v></c><c r="AB2"><v>28</v></c></row>'
            '<row><c r="B3"><v>2</v></c><c r="A3"><v>1</v></c><c><v>4</v></c></row><row><c r="XFD4"><v>far</v></c></row>'
            '<row><c r="B5"><v>2</v></c><c r="ZZZZZZZZZZZZZZZZ5"><v>no column</v></c></row>')
    make("gaps.xlsx", {**parts, "xl/worksheets/sheet1.xml": f"<worksheet>{gaps}</worksheet>"})
    make("wide.xlsx", {**parts, "xl/worksheets/sheet1.xml":
                       "<worksheet>" + '<row><c r="XFC1"/><c r="XFD1"><v>1</v></c></row>' * 20_000 + "</worksheet>"})
    make("broken.xlsx", {**parts, "xl/worksheets/sheet1.xml": "<worksheet>"})
    # Small outside, and one text of a mebibyte in each of a thousand cells.
    bomb = "<worksheet><row>" + '<c t="s"><v>0</v></c>' * 1000 + "</row></worksheet>"
    make("bomb.xlsx", {**parts, "xl/worksheets/sheet1.xml": bomb,
                       "xl/sharedStrings.xml": "<sst><si><t>" + "x" * (1 << 20) + "</t></si></sst>"})
    sheets = '<sheet name="Prices" r:id="r1"/>' * 200
    make("twice.xlsx", {**parts, "xl/workbook.xml": f'<workbook xmlns:r="r"><sheets>{sheets}</sheets></workbook>'})
    make("empty.xlsx", {**parts, "xl/worksheets/sheet1.xml": "<worksheet>" + "<c/>" * 7_000_000 + "</worksheet>"})
    add(world, "gaps.xlsx", "wide.xlsx", "plain.xlsx", "shared.xlsx", "broken.xlsx", "bomb.xlsx", "twice.xlsx", "empty.xlsx", "--drive", "d")
    read = lambda name: world.tool("context_read", {"path": f"d:/{name}"})["content"]  # noqa: E731
    assert read("plain.xlsx") == "Prices\n\t42.5\ninline\tTRUE\n", read("plain.xlsx")
    assert read("shared.xlsx") == "Prices\napricot\t42.5\ninline\tTRUE\n", read("shared.xlsx")
    assert read("gaps.xlsx") == ("Prices\n1\t\t3\n\t2" + "\t" * 26 + "28\n\t2\t1\t4\nXFD4: far\n\t2\tno column\n"), read("gaps.xlsx")
    assert read("wide.xlsx").startswith("Prices\nXFC1: \t1\n"), read("wide.xlsx")[:100]
    assert read("twice.xlsx") == read("plain.xlsx"), read("twice.xlsx")
    error = world.fails("context_read", {"path": "d:/empty.xlsx"})
    assert "elements" in error["message"], error
    error = world.fails("context_read", {"path": "d:/broken.xlsx"})
    assert "damaged" in error["message"], error
    error = world.fails("context_read", {"path": "d:/bomb.xlsx"})
    assert "bytes" in error["message"], error


def a_page_and_pages_below_it(world):
    with Server() as web:
        for path in ("/m", "/m/n", "/d", "/d/e", "/d/e/f"):
            Pages.content[path] = (200, "text/plain", path.encode() + b"\n")
        for path in ("/m", "/m/n", "/d/e/f", "/d/e", "/d"):
            assert add(world, web.url + path, "--allow-private")["added"] == 1, path
        for path in ("/m", "/m/n", "/d", "/d/e", "/d/e/f"):
            read = world.tool("context_read", {"path": web.url + path})
            assert read["content"] == path + "\n", (path, read)
            assert world.tool("context_info", {"path": web.url + path})["source"] == web.url + path
        assert add(world, web.url + "/m", "--allow-private")["unchanged"] == 1
        world.tool("context_move", {"path": web.url + "/d", "to_path": "notes:/moved"})
        assert world.tool("context_read", {"path": web.url + "/d"})["ref"] == "notes:/moved"
        Pages.content["/m"] = (200, "text/plain", b"newer\n")
        report = json.loads(world.run("context", "a", "refresh", "--all", "--allow-private", "--json"))
        assert report["replaced"] == 1, report
        assert world.tool("context_read", {"path": web.url + "/m"})["content"] == "newer\n"
        for path in ("/m", "/d"):
            Pages.content[path] = (200, "text/plain", b"newest\n")
            report = json.loads(world.run("context", "a", "refresh", web.url + path, "--allow-private", "--json"))
            assert report["replaced"] == 1, (path, report)
            assert b"newest" in world.run("context", "a", "chunks", web.url + path, "--json"), path
        # The content of the page, but written here.
        world.tool("context_write", {"path": web.url + "/m", "content": "newest\n", "on_conflict": "overwrite"})
        assert add(world, web.url + "/m", "--allow-private")["unchanged"] == 1


def the_policy_is_asked_before_the_network(world):
    with Server() as web:
        Pages.content["/post"] = (200, "text/plain", b"x\n")
        assert add(world, web.url + "/post", "--allow-private")["added"] == 1
        world.run("policy", "a", "set", "--preset", "no-network-drives")
        Pages.asked = []
        for words in (("add", web.url + "/post"), ("refresh", "url:/" + web.url + "/post")):
            denied = subprocess.run([program(), "context", "a", *words, "--as-agent", "--allow-private"], cwd=world.dir,
                                    env=world.env, capture_output=True, timeout=60)
            assert denied.returncode == 1 and b"network drives are off" in denied.stderr, denied
        assert Pages.asked == [], Pages.asked


def pages_are_fetched_and_refreshed(world):
    with Server() as web:
        Pages.content["/post"] = (200, "text/html; charset=utf-8", b"<!doctype html><title>Post</title><p>first")
        ref = "url:/" + web.url + "/post"
        denied = subprocess.run([program(), "context", "a", "add", web.url + "/post"], cwd=world.dir, env=world.env,
                                capture_output=True, timeout=60)
        assert denied.returncode == 1 and b"not one of the public internet" in denied.stderr, denied
        assert add(world, web.url + "/post", "--allow-private")["added"] == 1
        info = world.tool("context_info", {"path": web.url + "/post"})
        assert info["ref"] == ref and info["title"] == "Post" and info["source"] == web.url + "/post", info
        assert info["mime"] == "text/html", info
        assert world.tool("context_read", {"path": ref, "extract": True})["content"] == "first\n"
        assert add(world, web.url + "/post", "--allow-private")["unchanged"] == 1
        Pages.content["/post"] = (200, "text/html; charset=utf-8", b"<title>Post</title><p>second")
        report = json.loads(world.run("context", "a", "refresh", "--all", "--allow-private", "--json"))
        assert report["replaced"] == 1, report
        assert world.tool("context_info", {"path": ref})["id"] == info["id"]
        error = world.fails("context_refresh", {"path": ref})
        assert error["error_type"] == "denied", error


def redirects_and_errors_are_bounded(world):
    with Server() as web:
        Pages.content["/loop"] = (302, "/loop", b"")
        Pages.content["/once"] = (302, "/end", b"")
        Pages.content["/end"] = (200, "text/plain", b"end\n")
        Pages.content["/file"] = (302, "file:///etc/passwd", b"")
        Pages.content["/private"] = (403, "text/plain", b"no")
        assert add(world, web.url + "/once", "--allow-private")["added"] == 1
        assert world.run("context", "a", "read", web.url + "/once") == b"end\n"
        for path in ("/loop", "/file", "/private", "/missing"):
            world.run("context", "a", "add", web.url + path, "--allow-private", status=1)
        assert world.tool("context_list_drives", {})["drives"] == [
            {"drive": "url", "items": 1, "size_bytes": 4, "description": "pages of the web"}]


def a_killed_add_goes_on(world):
    for i in range(3000):
        write(world, f"many/{i % 10}/{i}.txt", b"content %d\n" % i)
    adding = subprocess.Popen([program(), "context", "a", "add", "many"], cwd=world.dir, env=world.env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.15)
    adding.send_signal(signal.SIGKILL)
    adding.communicate(timeout=60)
    report = add(world, "many")
    assert report["added"] + report["unchanged"] == 3000 and not report["failures"], report
    size = world.tool("context_dir_size", {"drive": "disk"})
    assert size["items"] == 3000, size
    assert world.run("fsck", "a")


def two_processes_add_the_same(world):
    for i in range(300):
        write(world, f"p/{i}.txt", b"%d" % i)
    both = [subprocess.Popen([program(), "context", "a", "add", "p"], cwd=world.dir, env=world.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    for one in both:
        out, err = one.communicate(timeout=120)
        assert one.returncode == 0, (out, err)
    assert world.tool("context_dir_size", {"drive": "disk"})["items"] == 300


if __name__ == "__main__":
    run_topic([a_folder_is_added_and_added_again, one_failure_does_not_stop_the_rest,
               text_of_files_in_other_encodings_is_read_and_found, an_item_that_was_changed_here_is_not_replaced, a_document_gives_its_text, office_documents_are_read_and_searched,
               every_cell_of_a_workbook_is_read, pages_are_fetched_and_refreshed, a_page_and_pages_below_it,
               the_policy_is_asked_before_the_network,
               redirects_and_errors_are_bounded, a_killed_add_goes_on, two_processes_add_the_same])
