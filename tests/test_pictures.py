"""Pictures that open again: model -> picture -> the same model, also after other programs wrote it anew."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from modeci_mdf.mdf import Function, Graph, InputPort, Model, Node, OutputPort, Parameter
from PIL import Image
from pypdf import PdfReader, PdfWriter
from test_formats import plain

from mdf_scatter.drawing import embed
from mdf_scatter.drawing.diagram import Diagram, draw
from mdf_scatter.errors import FormatError, ModelError
from mdf_scatter.formats import extract, load, picture_png, save

SUFFIXES = [".png", ".svg", ".pdf", ".html"]
GRAPHS = sorted(
    path for path in (Path(__file__).parents[1] / "graphs").iterdir() if path.suffix in (".yaml", ".onnx")
)
[EXAMPLE] = [path for path in GRAPHS if path.stem == "scatter_nd_diamond"]
HELL = "&<>\"'\\|{}:;=\n\r\t</script><!--]]>&amp;\u202eabc\u05d0\u0628\U0001f600\x07 `$title ${x}"


def one_page_pdf(words: str = "a diagram") -> bytes:
    """A PDF such as a renderer makes, small enough to be read."""
    stream = f"BT /F1 12 Tf 10 10 Td ({words}) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 50] /Contents 4 0 R /Resources "
        "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
    ]
    text, places = "%PDF-1.5\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n{len(text)}\n%%EOF\n"
    return f"{text}xref\n0 5\n0000000000 65535 f \n{table}{end}".encode("latin-1")


def saved(model: Model, path: Path, **options) -> Path:
    """Save a picture; a PDF without the program that renders one, so that its reading is tested anyhow."""
    if path.suffix == ".pdf" and not hasattr(Diagram, "pdf"):
        options["picture"] = one_page_pdf()
    save(model, path, **options)
    return path


def model_with(**values) -> Model:
    node = Node("n", parameters=[Parameter(name, value=value) for name, value in values.items()])
    node.input_ports.append(InputPort("x", shape=(2,), type="float32"))
    node.functions.append(
        Function("f", function="linear", args={"variable0": "x", "slope": 2, "intercept": 1})
    )
    node.output_ports.append(OutputPort("y", value="f"))
    return Model("m", graphs=[Graph("g", nodes=[node])])


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_every_example_comes_back(path, suffix, tmp_path):
    model = load(path)
    before = plain(model)
    picture = saved(model, tmp_path / f"m.mdf{suffix}")
    assert plain(load(picture)) == plain(extract(picture)) == before == plain(model)
    assert [file.name for file in tmp_path.iterdir()] == [picture.name]


MAGICK = ["magick", "mogrify"] if shutil.which("magick") else ["mogrify"]


@pytest.mark.parametrize(
    ("suffix", "command"),
    [
        (".png", ["optipng", "-quiet", "-force", "-zc9", "-zm8", "-zs0", "-f0", "-dir"]),
        (".png", [*MAGICK, "-path"]),
        (".svg", ["svgo", "--quiet", "-o"]),
        (".svg", ["svgo", "--quiet", "--multipass", "--pretty", "-o"]),
    ],
    ids=["optipng", "imagemagick", "svgo", "svgo-more"],
)
def test_every_example_comes_back_from_a_picture_written_anew(suffix, command, tmp_path):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    folder = tmp_path / "anew"
    folder.mkdir()
    models = {path.stem: load(path) for path in GRAPHS}
    pictures = [saved(model, tmp_path / f"{name}{suffix}") for name, model in models.items()]
    into = [folder, *pictures] if suffix == ".png" else [folder, "-i", *pictures]
    subprocess.run([*command, *into], check=True, timeout=120)
    for picture in pictures:
        anew = folder / picture.name
        assert anew.read_bytes() != picture.read_bytes()
        assert plain(load(anew)) == plain(models[picture.stem])


def test_a_pdf_written_anew_comes_back(tmp_path):
    model = load(EXAMPLE)
    path = saved(model, tmp_path / "m.pdf", picture=one_page_pdf())
    writer = PdfWriter(clone_from=path)
    for page in writer.pages:
        page.compress_content_streams()
    writer.add_metadata({"/Title": "another"})
    writer.write(tmp_path / "anew.pdf")
    assert (tmp_path / "anew.pdf").read_bytes() != path.read_bytes()
    assert plain(load(tmp_path / "anew.pdf")) == plain(model)


def test_a_page_with_other_line_ends_comes_back(tmp_path):
    model = load(EXAMPLE)
    path = saved(model, tmp_path / "m.html")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert plain(load(path)) == plain(model)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_diagram_of_ones_own_holds_the_model_too(theme, tmp_path):
    model = load(EXAMPLE)
    diagram = draw(model, theme=theme)
    for suffix in (".png", ".svg"):
        path = tmp_path / f"m{suffix}"
        save(model, path, picture=embed.drawn(diagram, suffix))
        assert plain(load(path)) == plain(model)
    assert Image.open(tmp_path / "m.png").tobytes() == Image.open(io.BytesIO(diagram.png)).tobytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_name_and_any_value_comes_back(suffix, tmp_path):
    node = Node(HELL, input_ports=[InputPort(HELL, type="float32", shape=(2,))])
    node.parameters += [
        Parameter("p", value=HELL),
        Parameter(HELL, value=[HELL, 1.5]),
        Parameter("l", value="é" * 10_000),
    ]
    node.parameters += [
        Parameter("a", value=np.array([[0.1, np.nan], [-np.inf, -0.0]], np.float16)),
        Parameter("e", value=np.zeros((0, 2), np.uint8)),
        Parameter("s", value=np.array([HELL, ""], dtype=object)),
        Parameter("c", value=np.array(1 - 2j, np.complex64)),
    ]
    node.functions.append(Function(HELL, function="linear", args={"variable0": HELL}))
    node.output_ports.append(OutputPort("long" * 2500, value=HELL))
    model = Model(HELL, graphs=[Graph(HELL, nodes=[node])], metadata={HELL: {HELL: [HELL]}})
    assert plain(load(saved(model, tmp_path / f"m{suffix}"))) == plain(model)


def test_the_pictures_are_what_their_names_say(tmp_path):
    model = load(EXAMPLE)
    files = {suffix: saved(model, tmp_path / f"m{suffix}") for suffix in SUFFIXES}
    save(model, tmp_path / "m.json", embed=True)
    text = (tmp_path / "m.json").read_text()
    with Image.open(files[".png"]) as image:
        assert json.loads(image.text["mdf"]) == json.loads(text)
        assert set(image.text) == {"mdf", "mdf-sha256", "mdf-drawing"}
    assert b"zTXtmdf\0" in files[".png"].read_bytes()
    [attachment] = PdfReader(files[".pdf"]).attachment_list
    assert attachment.name == "model.mdf.json"
    assert json.loads(attachment.content) == json.loads(text)
    assert ' data-mdf="' in files[".svg"].read_text().partition(">")[0]
    [held] = re.findall(
        r'<script type="application/json" id="mdf-model"[^>]*>(.*?)</script>',
        files[".html"].read_text(),
        re.DOTALL,
    )
    assert json.loads(held) == json.loads(text)


# ---- large models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_large_arrays_stand_beside_the_picture_which_says_so(suffix, tmp_path):
    model = model_with(big=np.arange(600_000, dtype=np.float64) / 7, small=np.arange(2000))
    path = saved(model, tmp_path / f"m.mdf{suffix}")
    side = tmp_path / "m.mdf.safetensors"
    assert sorted(tmp_path.iterdir()) == sorted([path, side])
    assert plain(load(path)) == plain(model)
    assert b"m.mdf.safetensors" in path.read_bytes()
    side.write_bytes(side.read_bytes()[:-1] + b"?")
    with pytest.raises(FormatError, match="has changed since the model was saved"):
        load(path)
    side.unlink()
    with pytest.raises(
        FormatError,
        match=r"the side file 'm.mdf.safetensors', which holds .* is not in",
    ):
        load(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_arrays_that_fit_stand_in_the_picture(suffix, tmp_path):
    model = model_with(big=np.arange(20_000, dtype=np.float32))
    path = saved(model, tmp_path / f"m{suffix}")
    assert list(tmp_path.iterdir()) == [path]
    assert plain(load(path)) == plain(model)


def test_a_picture_that_no_longer_needs_a_side_file_removes_it(tmp_path):
    path = saved(model_with(big=np.arange(600_000)), tmp_path / "m.svg")
    assert (tmp_path / "m.safetensors").exists()
    saved(model_with(), path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_side_file_that_a_picture_relies_on_is_not_overwritten(tmp_path):
    first = saved(model_with(big=np.arange(600_000)), tmp_path / "m.png")
    with pytest.raises(
        FormatError, match=r"m.safetensors holds arrays of m.png too; save under another name, or embed"
    ):
        save(model_with(big=np.arange(600_001)), tmp_path / "m.yaml")
    assert load(first)


def test_embed_keeps_everything_inside_where_the_format_can(tmp_path):
    model = model_with(big=np.arange(200_000))
    for suffix in (".svg", ".html", ".pdf"):
        assert plain(load(saved(model, tmp_path / f"m{suffix}", embed=True))) == plain(model)
    assert not (tmp_path / "m.safetensors").exists()
    with pytest.raises(FormatError) as raised:
        save(model, tmp_path / "m.png", embed=True)
    assert re.fullmatch(
        r".*m\.png: would hold \d+ bytes of a model's text, and few programs open a PNG of more than "
        r"1000000; save it as \.svg, \.pdf or \.html, or draw it without the model \(--no-embed\)",
        str(raised.value),
    )
    assert not (tmp_path / "m.png").exists()


# ---- pictures that were changed -----------------------------------------------------------------------

CHANGED = (
    "was changed after its model was put in, so that it may show another; "
    "take the model out with accept_changed and draw it again"
)


def assert_noticed(path: Path, model: Model) -> None:
    with pytest.raises(FormatError) as raised:
        load(path)
    assert str(raised.value) == f"{path}: {CHANGED}"
    with pytest.raises(FormatError, match="was changed"):
        extract(path)
    assert plain(extract(path, accept_changed=True)) == plain(model)


@pytest.fixture
def svg(tmp_path):
    return saved(load(EXAMPLE), tmp_path / "m.svg")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r">ScatterND<|>scatter_nd_add<|>indices<", ">other<"),
        (r'<path [^>]*d="M[^"]*C[^"]*" ?/>\s*</g>', "</g>"),
        (r'fill="#b84a00"', 'fill="#0b5fb0"'),
        (r"</svg>", '<rect x="0" y="0" width="50" height="50" fill="red"/></svg>'),
        (r"</svg>", "<style>text { display: none }</style></svg>"),
        (r"<text ", '<text opacity="0" '),
        (r'(<text [^>]*) x="([\d.]+)"', r'\1 x="1\2"'),
        (r"</svg>", '<image href="https://example.org/a.png"/></svg>'),
    ],
    ids=["word", "wire", "colour", "box", "style", "hidden", "moved", "image"],
)
def test_a_changed_svg_is_noticed(old, new, svg):
    text = svg.read_text()
    svg.write_text(re.sub(old, new, text, count=1))
    assert svg.read_text() != text
    assert_noticed(svg, load(EXAMPLE))


def with_pixels(path: Path, change) -> None:
    """Change a PNG's pixels and keep everything else, as a program that paints may do."""
    image = Image.open(path)
    image.load()
    kept = [
        (kind, bytes(body))
        for kind, body in picture_png._chunks(path.read_bytes())
        if kind in picture_png._TEXT_CHUNKS
    ]
    buffer = io.BytesIO()
    change(image).save(buffer, "PNG")
    parts = [(kind, bytes(body)) for kind, body in picture_png._chunks(buffer.getvalue())]
    parts[1:1] = kept
    path.write_bytes(picture_png._SIGNATURE + b"".join(picture_png._chunk(*part) for part in parts))


def test_changed_pixels_are_noticed(tmp_path):
    path = saved(load(EXAMPLE), tmp_path / "m.png")

    def dot(image):
        image.putpixel((image.width - 1, image.height - 1), (1, 2, 3, 255)[: len(image.getbands())])
        return image

    with_pixels(path, lambda image: image)
    assert load(path)
    with_pixels(path, dot)
    assert_noticed(path, load(EXAMPLE))


def test_a_smaller_copy_is_noticed(tmp_path):
    path = saved(load(EXAMPLE), tmp_path / "m.png")
    with_pixels(path, lambda image: image.resize((image.width // 2, image.height // 2)))
    assert_noticed(path, load(EXAMPLE))


def test_a_changed_pdf_is_noticed(tmp_path):
    path = saved(load(EXAMPLE), tmp_path / "m.pdf", picture=one_page_pdf())
    path.write_bytes(path.read_bytes().replace(b"(a diagram)", b"(a diagran)"))
    assert_noticed(path, load(EXAMPLE))
    path = saved(load(EXAMPLE), tmp_path / "n.pdf", picture=one_page_pdf())
    writer = PdfWriter(clone_from=path)
    writer.add_blank_page(100, 100)
    writer.write(path)
    assert_noticed(path, load(EXAMPLE))


def test_a_changed_page_is_noticed(tmp_path):
    path = saved(load(EXAMPLE), tmp_path / "m.html")
    path.write_text(path.read_text().replace("Choose a node", "Choose any node"))
    assert_noticed(path, load(EXAMPLE))


def test_a_changed_model_is_noticed(svg):
    text = svg.read_text()
    [data] = re.findall(' data-mdf="([^"]*)"', text)
    model = zlib.decompress(base64.b64decode(data)).replace(b"float32", b"float64")
    svg.write_text(text.replace(data, base64.b64encode(zlib.compress(model)).decode()))
    with pytest.raises(FormatError) as raised:
        extract(svg, accept_changed=True)
    assert (
        str(raised.value)
        == f"{svg}: holds a model that was changed after it was put in: its SHA-256 is another"
    )


def test_extract_is_for_pictures(tmp_path):
    with pytest.raises(FormatError) as raised:
        extract(tmp_path / "m.yaml")
    assert str(raised.value) == (
        f"{tmp_path / 'm.yaml'}: is not a picture that holds a model; "
        "expected '.png', '.svg', '.pdf' or '.html'"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_cannot_be_saved(suffix, tmp_path):
    path = tmp_path / f"m{suffix}"
    with pytest.raises(FormatError) as raised:
        save(5, path)
    assert str(raised.value) == f"{path}: cannot hold a int; expected a modeci_mdf.mdf.Model"
    with pytest.raises(ModelError) as raised:
        save(Model("m"), path)
    assert str(raised.value) == "model 'm' has no graph to draw; expected one"
    with pytest.raises(FormatError):
        save(model_with(), path, picture=b"GIF89a")
    assert not list(tmp_path.iterdir())
