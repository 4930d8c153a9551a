"""The diagram as PDF: lines and text where every viewer has the font, else a picture."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter

from mdf_scatter.cli import pictures
from mdf_scatter.drawing import pdf, render
from mdf_scatter.drawing.diagram import draw
from mdf_scatter.formats import save


def one(name: str, k: object = 2) -> Model:
    node = Node(
        name,
        input_ports=[InputPort("x", type="int8", shape=(2, 2))],
        parameters=[Parameter("k", value=k)],
        output_ports=[OutputPort("y", value="x")],
    )
    return Model("a (model)", graphs=[Graph("g", nodes=[node])])


def content(document: bytes) -> str:
    stream = re.search(rb"/Filter/FlateDecode/Length (\d+)>>stream\n", document)
    assert stream is not None
    return zlib.decompress(document[stream.end() : stream.end() + int(stream[1])]).decode("ascii")


def texts(document: bytes) -> list[str]:
    shown = re.findall(r"<([0-9a-f]*)> Tj", content(document))
    return [bytes.fromhex(text).decode("cp1252").replace("\xa0", " ").strip() for text in shown]


def test_the_page_is_drawn_in_text_and_lines_of_the_svgs_size() -> None:
    diagram = draw(one("n", k=1.5))
    width, height = render.size(diagram.svg)
    assert f"/MediaBox[0 0 {width:g} {height:g}]".encode() in diagram.pdf
    assert {"g", "MDF graph", "n", "k", "1.5", "int8[2, 2]"} <= set(texts(diagram.pdf))
    assert b"/Subtype/Image" not in diagram.pdf
    assert content(diagram.pdf).count(" c S") == diagram.svg.count('<path fill="none"')


def test_every_object_is_where_the_table_says() -> None:
    for document in (draw(one("n")).pdf, draw(one("שלום")).pdf):
        start = int(document.rsplit(b"startxref\n", 1)[1].split()[0])
        assert document[start : start + 5] == b"xref\n"
        rows = re.findall(rb"(\d{10}) 00000 n \n", document[start:])
        for number, place in enumerate(rows, start=1):
            assert document[int(place) :].startswith(b"%d 0 obj\n" % number)
        assert b"/Size %d/" % (len(rows) + 1) in document[start:]


def test_title_and_description_are_in_it() -> None:
    diagram = draw(one("n"))
    for text in ("a (model)", diagram.alt):
        assert b"<feff%s>" % text.encode("utf-16-be").hex().encode() in diagram.pdf
    assert b"/Alt <feff" in diagram.pdf
    assert b"/Lang(en)" in diagram.pdf  # the language of that text


def test_latin_text_and_arrows_stay_text() -> None:
    assert "café × “quoted” … €" in texts(draw(one("café × “quoted” … €")).pdf)
    assert pdf.is_latin("<svg xmlns='http://www.w3.org/2000/svg'><text>a → b</text></svg>")


@pytest.mark.parametrize("name", ["שלום", "日本語", "🎉", "łódź"])
def test_other_text_makes_the_page_a_picture(name: str) -> None:
    diagram = draw(one(name))
    width, height = render.size(diagram.svg)
    size = re.search(rb"/Filter/DCTDecode/Width (\d+)/Height (\d+)", diagram.pdf)
    assert size is not None
    assert [int(side) for side in size.groups()] == pytest.approx(
        [width * 300 / 72, height * 300 / 72], abs=4
    )


def test_a_page_longer_than_viewers_show_is_drawn_smaller() -> None:
    svg = draw(one("n")).svg
    document = pdf.vector_page(svg, (28_800.0, 100.0), "t", "a")
    assert b"/MediaBox[0 0 14400 50]" in document
    assert content(document).startswith("0.5 0 0 -0.5 0 50 cm")


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not installed")
def test_another_reader_finds_the_text(tmp_path: Path) -> None:
    draw(one("node_name", k="hello")).save(tmp_path / "d.pdf")
    done = subprocess.run(["pdftotext", tmp_path / "d.pdf", "-"], capture_output=True, check=True, text=True)
    assert done.stderr == ""
    assert {"node_name", "hello", "graph"} <= set(done.stdout.split())


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_letters_that_a_picture_has_no_font_for_are_told(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node("Größe_Ω_ﬁ_神経", input_ports=[InputPort("вход_אב_ℓ_🙂_神")])
    model, picture = tmp_path / "m.yaml", tmp_path / f"p.{suffix}"
    save(Model("m", graphs=[Graph("g", nodes=[node])]), model)
    pictures.draw(model, picture, no_embed=True)
    told = f"{picture}: has boxes for letters that its font lacks, '神経🙂'; .svg and .html have none\n"
    drawn = f"{picture}: drawn, without the model\n"
    assert sorted(capsys.readouterr().out.splitlines(keepends=True)) == [drawn, told][: 1 + (suffix != "svg")]
