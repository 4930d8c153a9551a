"""MDF files: JSON, YAML and BSON text <-> plain trees of dicts, lists and scalars <-> models.

The shape of the file is modelspec's own, so that plain modeci-mdf reads it. The way in and the way out
are ours, because modelspec loses dtypes on the way out and evaluates texts on the way in. The fields
of each object, and what each may hold, are read from modeci-mdf's classes.
"""

from __future__ import annotations

from pathlib import Path

from modeci_mdf.mdf import Model

from mdf_scatter.errors import FormatError
from mdf_scatter.formats.arrays import shown
from mdf_scatter.formats.from_tree import model_of
from mdf_scatter.formats.json_bson import read_bson, read_json, write_bson, write_dense_json, write_json
from mdf_scatter.formats.picture import SUFFIXES as PICTURE_SUFFIXES
from mdf_scatter.formats.picture import digest
from mdf_scatter.formats.tensors_file import SUFFIX, encode, is_abandoned, refuse_to_overwrite
from mdf_scatter.formats.to_tree import (
    TENSORS,
    TreeWriter,
    claim,
    names_side_file,
    refuse_unholdable,
    reserved,
)
from mdf_scatter.formats.yaml_text import MAX_DEPTH, read_yaml, write_yaml

# Inside a picture a model stands as JSON.
_READERS = {".json": read_json, ".bson": read_bson, **dict.fromkeys(PICTURE_SUFFIXES, read_json)}
_WRITERS = {".json": write_json, ".bson": write_bson, **dict.fromkeys(PICTURE_SUFFIXES, write_dense_json)}


def read(data: bytes, path: Path) -> Model:
    """Read an MDF model from the bytes of a file.

    Args:
        data: The bytes.
        path: Where they come from; its suffix says how they are written, its folder has the side file.

    Raises:
        FormatError: The bytes are not a model. The message does not name the file.
    """
    reader = _READERS.get(path.suffix.lower(), read_yaml)
    try:
        return model_of(reader(data), path.parent)
    except RecursionError as error:
        raise FormatError(f"is nested deeper than {MAX_DEPTH} levels") from error


def write(model: Model, path: Path, *, embed: bool = False) -> dict[Path, bytes | None]:
    """Return what saving a model writes: the bytes of each file, or None for one to be removed.

    Raises:
        FormatError: The model holds what a file cannot keep.
    """
    require_model(model)
    side = path.with_suffix(SUFFIX)
    suffix = path.suffix.lower()
    writer = TreeWriter(int64_only=suffix == ".bson", embed=embed)
    tree = writer.model(model)
    files: dict[Path, bytes | None] = {}
    if writer.large:
        data = encode(writer.large)
        refuse_to_overwrite(side, path, data)
        files[side] = data
        claim(
            tree[model.id], TENSORS, {"file": side.name, "sha256": digest(data)}, f"model {shown(model.id)}"
        )
    elif names_side_file(model.metadata):
        raise reserved(TENSORS, f"model {shown(model.id)}")
    elif is_abandoned(side, path):
        files[side] = None
    refuse_unholdable(tree, (), ".json" if suffix in PICTURE_SUFFIXES else suffix)
    files[path] = _WRITERS.get(suffix, write_yaml)(tree)
    return files


def require_model(model: object) -> None:
    """Raise where what is to be saved is no model.

    Raises:
        FormatError: It is none.
    """
    if not isinstance(model, Model):
        raise FormatError(f"cannot hold a {type(model).__name__}; expected a modeci_mdf.mdf.Model")
