"""Wrong and hostile pictures: one line that says what is wrong, in bounded time and memory."""

# ruff: noqa: E501 - whole messages stand in the tables
from __future__ import annotations

import base64
import io
import json
import random
import struct
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort
from pypdf import PdfWriter
from pypdf.generic import DictionaryObject, NameObject, TextStringObject
from test_formats import plain
from test_pictures import one_page_pdf

from mdf_scatter.errors import FormatError
from mdf_scatter.formats import load, picture_png, save
from mdf_scatter.formats.picture import Held, digest, picture_format

SUFFIXES = [".png", ".svg", ".pdf", ".html"]
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt"><desc>d</desc><text x="1" y="2">n</text></svg>\n'
HTML = b"<!DOCTYPE html>\n<html><body><p>n</p></body></html>\n"
NONE = "holds no model: it was made without one, or a program that saved it again left the model out"
DAMAGED = "holds a model whose compressed text is damaged"


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(*chunks: bytes, size: tuple[int, int] = (2, 1), pixels: bytes = b"\0abcdef") -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
    ends = chunk(b"IDAT", zlib.compress(pixels)), chunk(b"IEND", b"")
    return b"".join([b"\x89PNG\r\n\x1a\n", header, *chunks, *ends])


DRAWINGS = {".png": png(), ".svg": SVG, ".pdf": one_page_pdf(), ".html": HTML}


def small() -> Model:
    node = Node("n", input_ports=[InputPort("x")], output_ports=[OutputPort("y", value="x")])
    return Model("m", graphs=[Graph("g", nodes=[node])])


def holding(text: bytes, suffix: str) -> bytes:
    """Return a picture that holds a text, with everything right besides."""
    form = picture_format(suffix)
    drawing = DRAWINGS[suffix]
    return form.put(drawing, Held(text, digest(text), form.drawing_digest(drawing)))


def whole(suffix: str, tmp_path: Path) -> bytes:
    """Return a small picture that opens."""
    path = tmp_path / f"whole{suffix}"
    save(small(), path, picture=DRAWINGS[suffix])
    return path.read_bytes()


def refused(tmp_path: Path, suffix: str, data: bytes) -> str:
    path = tmp_path / f"m{suffix}"
    path.write_bytes(data)
    with pytest.raises(FormatError) as raised:
        load(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 250
    return message.removeprefix(f"{path}: ")


# ---- every format -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_picture_without_a_model(suffix, tmp_path):
    assert refused(tmp_path, suffix, DRAWINGS[suffix]) == NONE


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        (".png", "is not a PNG"),
        (".svg", "is not SVG: syntax error at line 1, column 1"),
        (".pdf", "is not a PDF"),
        (".html", "is not an HTML page"),
    ],
)
def test_another_file_of_that_name(suffix, message, tmp_path):
    assert refused(tmp_path, suffix, b"GIF89a") == message
    assert refused(tmp_path, suffix, b"") == "is empty"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_picture_cut_off_anywhere(suffix, tmp_path):
    data = whole(suffix, tmp_path)
    for length in range(1, len(data.rstrip()), 7):
        refused(tmp_path, suffix, data[:length])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_picture_with_any_byte_changed_is_refused_or_the_same(suffix, tmp_path):
    data, right = whole(suffix, tmp_path), plain(small())
    chance = random.Random(0)
    path = tmp_path / f"m{suffix}"
    refusals = 0
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        path.write_bytes(changed)
        try:
            assert plain(load(path)) == right
        except FormatError:
            refusals += 1
    assert refusals > 100


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[1, 2", "is not JSON: Expecting ',' delimiter at line 1, column 6"),
        (b"null", "holds null; expected a mapping from the model's id to the model"),
        (b'{"m": {"graphs": {}, "graphs": {}}}', "has the key 'graphs' twice in one mapping"),
        (b'{"m": {"graphs": 1}}', "model 'm': graphs is 1; expected a mapping from ids"),
        (b"[" * 100_000, "is nested deeper than 100 levels"),
        (
            json.dumps(
                {"m": {"graphs": {}, "metadata": {"tensors": {"file": "../../x.safetensors", "sha256": "0"}}}}
            ).encode(),
            "the side file '../../x.safetensors' is not in the model's own folder; expected a plain file name",
        ),
        (
            json.dumps(
                {"m": {"graphs": {}, "metadata": {"tensors": {"file": "/etc/passwd", "sha256": "0"}}}}
            ).encode(),
            "the metadata 'tensors' names the file '/etc/passwd'; expected a name ending in '.safetensors'",
        ),
    ],
    ids=["json", "null", "twice", "graphs", "deep", "outside", "absolute"],
)
def test_the_model_in_a_picture_is_read_like_any_other(text, message, suffix, tmp_path):
    assert refused(tmp_path, suffix, holding(text, suffix)) == message


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_wrong_hash(suffix, tmp_path):
    form = picture_format(suffix)
    text = b'{"m": {"graphs": {}}}'
    data = form.put(DRAWINGS[suffix], Held(text, digest(b"another"), form.drawing_digest(DRAWINGS[suffix])))
    assert (
        refused(tmp_path, suffix, data)
        == "holds a model that was changed after it was put in: its SHA-256 is another"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_hash(suffix, tmp_path):
    data = picture_format(suffix).put(DRAWINGS[suffix], Held(b"{}", "", "0"))
    assert (
        refused(tmp_path, suffix, data)
        == "holds a model without 'mdf-sha256' beside it; it is not a picture as we write it"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_too_large(suffix, tmp_path):
    path = tmp_path / f"m{suffix}"
    with path.open("wb") as file:
        file.truncate(2**26 + 1)
    with pytest.raises(FormatError, match=f"has {2**26 + 1} bytes; a model file has at most {2**26}"):
        load(path)


def bombs():
    packed = zlib.compressobj(9)
    zeros = b"".join([*(packed.compress(bytes(2**20)) for _ in range(300)), packed.flush()])
    marks = [chunk(b"tEXt", f"mdf-{name}\0{'0' * 64}".encode()) for name in ("sha256", "drawing")]
    attributes = f'data-mdf="{base64.b64encode(zeros).decode()}" data-mdf-sha256="0" data-mdf-drawing="0"'
    yield (
        ".png",
        png(chunk(b"zTXt", b"mdf\0\0" + zeros), *marks),
        "holds a model whose text would have more than 1000000 bytes",
    )
    yield (
        ".svg",
        SVG.replace(b"<svg", b"<svg " + attributes.encode()),
        f"holds a model whose text would have more than {2**25} bytes",
    )
    text = b'{"m": {"graphs": {}}}'
    size = (8000, 8000)
    held = [
        chunk(b"zTXt", b"mdf\0\0" + zlib.compress(text)),
        chunk(b"tEXt", b"mdf-sha256\0" + digest(text).encode()),
        marks[1],
    ]
    yield (
        ".png",
        png(*held, size=(60_000, 60_000)),
        "is a PNG of 60000 x 60000 pixels; a diagram has at most 64000000",
    )
    yield ".png", png(*held, size=size), "is a PNG whose pixels are damaged"
    yield ".html", b"<html>" + b"<script " * 2_000_000, NONE
    yield ".html", b"<html>" + b'<script id="mdf-model' * 500_000, NONE
    yield ".svg", b"<svg>" * 1_000_000, "is not SVG: its root is 'svg'"
    yield ".svg", SVG.replace(b"<text", b"<g>" * 1000 + b"<text"), "is SVG nested deeper than 200 levels"
    yield ".pdf", pdf_bomb(zeros), None


def pdf_bomb(zeros: bytes) -> bytes:
    plain_ = holding(b"{}", ".pdf")
    stream = b"<<\n/Type /EmbeddedFile\n/Subtype /application#2Fjson\n/Length 2\n>>\nstream\n{}\nendstream"
    start = plain_.index(b"stream\n{}\nendstream")
    start = plain_.rindex(b"<<", 0, start)
    end = plain_.index(b"endstream", start) + len(b"endstream")
    packed = b"<< /Type /EmbeddedFile /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (
        len(zeros),
        zeros,
    )
    assert stream.startswith(b"<<")
    return plain_[:start] + packed + plain_[end:]


@pytest.mark.parametrize(
    ("suffix", "data", "message"),
    list(bombs()),
    ids=lambda value: value if isinstance(value, str) and len(value) < 6 else "",
)
def test_bombs(suffix, data, message, tmp_path):
    tracemalloc.start()
    start = time.perf_counter()
    said = refused(tmp_path, suffix, data)
    took, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert message is None or said == message
    assert took < 10
    assert peak < 300e6


# ---- PNG --------------------------------------------------------------------------------------------

TEXT = b'{"m": {"graphs": {}}}'
MARKS = [
    chunk(b"tEXt", b"mdf-sha256\0" + digest(TEXT).encode()),
    chunk(b"tEXt", b"mdf-drawing\0" + picture_png.drawing_digest(png()).encode()),
]
HELD = chunk(b"zTXt", b"mdf\0\0" + zlib.compress(TEXT))


def test_the_model_may_stand_in_a_plain_text_and_in_any_place(tmp_path):
    for data in (png(HELD, *MARKS), png(*MARKS, HELD), png(chunk(b"tEXt", b"mdf\0" + TEXT), *MARKS)):
        (tmp_path / "m.png").write_bytes(data)
        assert load(tmp_path / "m.png").id == "m"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (png(HELD, HELD, *MARKS), "holds 'mdf' twice; which of them is the model's cannot be known"),
        (
            png(HELD, chunk(b"tEXt", b"mdf\0{}"), *MARKS),
            "holds 'mdf' twice; which of them is the model's cannot be known",
        ),
        (
            png(HELD, MARKS[0], *MARKS),
            "holds 'mdf-sha256' twice; which of them is the model's cannot be known",
        ),
        (
            png(chunk(b"iTXt", b"mdf\0\0\0\0\0" + TEXT), *MARKS),
            "holds 'mdf' otherwise than as a zTXt or tEXt chunk",
        ),
        (
            png(chunk(b"zTXt", b"mdf\0\1" + TEXT), *MARKS),
            "holds 'mdf' otherwise than as a zTXt or tEXt chunk",
        ),
        (
            png(HELD, chunk(b"zTXt", b"mdf-sha256\0\0" + zlib.compress(b"0")), MARKS[1]),
            "holds 'mdf-sha256' otherwise than as a short tEXt chunk",
        ),
        (png(chunk(b"zTXt", b"mdf\0\0" + zlib.compress(TEXT)[:-3]), *MARKS), DAMAGED),
        (png(chunk(b"zTXt", b"mdf\0\0" + zlib.compress(TEXT) + b"more"), *MARKS), DAMAGED),
        (
            png(chunk(b"tEXt", b"mdf\0\xff"), *MARKS),
            "holds a model that is not ASCII text; it is not a picture as we write it",
        ),
        (png(chunk(b"zTXt", b"MDF\0\0" + zlib.compress(TEXT)), *MARKS), NONE),
        (png(chunk(b"zTXt", b"mdf \0\0" + zlib.compress(TEXT)), *MARKS), NONE),
        (png(HELD, *MARKS) + b"PK\3\4", "is a PNG with 4 bytes after its end"),
        (
            png(HELD, *MARKS).replace(b"IDAT", b"IDAX"),
            "is a PNG that is damaged: the checksum of its chunk 'IDAX' is wrong",
        ),
        (
            png(chunk(b"IHDR", bytes(13)), HELD, *MARKS),
            "is not a PNG: its first chunk, and only that, is to be IHDR",
        ),
        (
            b"\x89PNG\r\n\x1a\n" + chunk(b"tEXt", b"") * 2,
            "is not a PNG: its first chunk, and only that, is to be IHDR",
        ),
        (png(HELD, *MARKS, *[chunk(b"tEXt", b"")] * 100_000), "is a PNG of more than 100000 chunks"),
        (png(HELD, *MARKS, pixels=b"\0abc"), "is a PNG whose pixels are damaged"),
    ],
)
def test_png(data, message, tmp_path):
    assert refused(tmp_path, ".png", data) == message


# ---- SVG --------------------------------------------------------------------------------------------


def svg_with(old: bytes, new: bytes) -> bytes:
    data = holding(TEXT, ".svg")
    assert old in data
    return data.replace(old, new, 1)


LAUGHS = b'<!DOCTYPE svg [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
DOCTYPE = "has a document type (DOCTYPE), which a picture as we write it has not"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (LAUGHS + svg_with(b">n<", b">&b;<"), DOCTYPE),
        (b'<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + svg_with(b">n<", b">&x;<"), DOCTYPE),
        (
            b'<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">'
            + holding(TEXT, ".svg"),
            DOCTYPE,
        ),
        (svg_with(b">n<", b">&undefined;<"), "is not SVG: undefined entity at line 1, column 313"),
        (
            svg_with(b"<desc>", b"<script>alert(1)</script><desc>"),
            "holds a <script>, which can run; a picture as we write it holds none",
        ),
        (
            svg_with(b"<desc>", b'<h:script xmlns:h="http://www.w3.org/1999/xhtml"/><desc>'),
            "holds a <script>, which can run; a picture as we write it holds none",
        ),
        (
            svg_with(b"<desc>", b"<foreignObject/><desc>"),
            "holds a <foreignObject>, which can run; a picture as we write it holds none",
        ),
        (
            svg_with(b"<svg", b'<svg onload="alert(1)"'),
            "holds the attribute 'onload', which can run; ours have none",
        ),
        (
            svg_with(b"<desc>", b'<a href="javascript:alert(1)"/><desc>'),
            "holds a link to 'javascript:alert(1)'; a picture's links begin with 'https://' or '#'",
        ),
        (
            svg_with(
                b"<desc>", b'<a xmlns:x="http://www.w3.org/1999/xlink" x:href=" JavaScript:alert(1)"/><desc>'
            ),
            "holds a link to ' JavaScript:alert(1)'; a picture's links begin with 'https://' or '#'",
        ),
        (
            svg_with(b"<desc>", b'<image href="file:///etc/passwd"/><desc>'),
            "holds a link to 'file:///etc/passwd'; a picture's links begin with 'https://' or '#'",
        ),
        (
            svg_with(b"<desc>", b'<set attributeName="href" to="javascript:alert(1)"/><desc>'),
            "holds a link to 'javascript:alert(1)'; a picture's links begin with 'https://' or '#'",
        ),
        (
            b'<?xml-stylesheet href="https://example.org/a.css"?>' + holding(TEXT, ".svg"),
            "has an instruction to programs, 'xml-stylesheet', which ours have not",
        ),
        (
            svg_with(b"<desc>", b'<g data-mdf="x"/><desc>'),
            "holds a second 'data-mdf', inside the drawing; the model is the root's",
        ),
        (
            svg_with(b" data-mdf=", b' data-mdf="x" data-mdf='),
            "is not SVG: duplicate attribute at line 1, column 19",
        ),
        (svg_with(b' data-mdf="', b' data-mdf="!'), "holds 'data-mdf' that is not base64"),
        (svg_with(b' data-mdf="', b' data-mdf="AAAA'), DAMAGED),
        (holding(TEXT, ".svg").replace(b"svg", b"html"), "is not SVG: its root is 'html'"),
        (
            holding(TEXT, ".svg").replace(b' xmlns="http://www.w3.org/2000/svg"', b""),
            "is not SVG: its root is 'svg'",
        ),
        (
            b'<?xml version="1.0" encoding="klingon"?>' + holding(TEXT, ".svg"),
            "is not SVG: it is written in an encoding that is not known",
        ),
        (svg_with(b"<text", b'<path d="M1 2 L3"/><text'), "holds a path that cannot be read: ''"),
        (svg_with(b"<text", b'<path d="M1 2 !"/><text'), "holds a path that cannot be read: ' !'"),
        (
            svg_with(b"<text", b'<text transform="skewX(1)"'),
            "holds the transform 'skewX(1)', which our drawings have not",
        ),
    ],
)
def test_svg(data, message, tmp_path):
    assert refused(tmp_path, ".svg", data) == message


# ---- HTML -------------------------------------------------------------------------------------------


def html_with(old: bytes, new: bytes) -> bytes:
    data = holding(TEXT, ".html")
    assert old in data
    return data.replace(old, new, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            html_with(b"<p>", b'<script type="application/json" id="mdf-model">{}</script><p>'),
            "holds 'mdf-model' twice; which of them is the model's cannot be known",
        ),
        (
            html_with(b"<p>", b"<SCRIPT ID=mdf-model></SCRIPT><p>"),
            "holds 'mdf-model' twice; which of them is the model's cannot be known",
        ),
        (
            html_with(b' type="application/json"', b""),
            "holds its model in a script that is not written as we write it",
        ),
        (
            html_with(b' id="mdf-model"', b' id="mdf-model" src="https://example.org/"'),
            "holds its model in a script that is not written as we write it",
        ),
        (
            html_with(b' data-mdf-sha256="', b' data-mdf-sha256="0" data-mdf-sha256="'),
            "holds 'data-mdf-...' twice; which of them is the model's cannot be known",
        ),
        (html_with(b'{"m"', b'<b>{"m"'), "is a page that is cut off, or whose model is not JSON"),
        (
            html_with(b'id="mdf-model"', b'id="mdf-models"'),
            "holds its model in a script that is not written as we write it",
        ),
    ],
)
def test_html(data, message, tmp_path):
    assert refused(tmp_path, ".html", data) == message


# ---- PDF --------------------------------------------------------------------------------------------


def pdf_with(change) -> bytes:
    writer = PdfWriter(clone_from=io.BytesIO(holding(TEXT, ".pdf")))
    change(writer)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


SCRIPT = DictionaryObject(
    {NameObject("/S"): NameObject("/JavaScript"), NameObject("/JS"): TextStringObject("app.alert(1)")}
)
RUNS = "is a PDF that runs something when it is opened; a picture as we write it does not"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda pdf: pdf.add_attachment("model.mdf.json", b"{}"),
            "holds 'model.mdf.json' twice; which of them is the model's cannot be known",
        ),
        (lambda pdf: pdf.root_object.update({NameObject("/OpenAction"): SCRIPT}), RUNS),
        (
            lambda pdf: pdf.root_object.update(
                {NameObject("/AA"): DictionaryObject({NameObject("/WC"): SCRIPT})}
            ),
            RUNS,
        ),
        (
            lambda pdf: pdf.root_object["/Names"].get_object().update({NameObject("/JavaScript"): SCRIPT}),
            RUNS,
        ),
        (
            lambda pdf: pdf.encrypt("secret", algorithm="RC4-128"),
            "is an encrypted PDF; a picture as we write it is not",
        ),
    ],
    ids=["two", "opened", "closed", "named", "encrypted"],
)
def test_pdf(change, message, tmp_path):
    assert refused(tmp_path, ".pdf", pdf_with(change)) == message


def test_other_attachments_do_not_matter(tmp_path):
    path = tmp_path / "m.pdf"
    path.write_bytes(pdf_with(lambda pdf: pdf.add_attachment("MODEL.mdf.json", b"{}")))
    assert load(path).id == "m"
