"""What is installed: extras and environment.yml agree, imports stay light, files hold nothing private."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from conftest import ROOT
from packaging.requirements import Requirement

import wordlelib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
MODULES = [*sorted(path.stem for path in (ROOT / "wordlelib").glob("[!_]*.py")), "__main__"]
# The one module that is imported only where torch is.
TORCH_FREE = [name for name in MODULES if name != "callbacks"]
HEAVY = (
    "torch transformers trl peft accelerate datasets unsloth vllm bitsandbytes "
    "ray scipy pandas pyarrow plotly IPython ipywidgets anywidget papermill openai"
)


def pins(requirements: list[str]) -> dict[str, str]:
    """Package name to what is asked of it."""
    return {re.split(r"[<>=!~\[; ]", text)[0]: text for text in requirements}


def test_environment_yml_is_one_conda_forge_channel_with_python_312_and_one_pip_block():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["channels"] == ["conda-forge"]
    *conda, pip = environment["dependencies"]
    assert conda == ["python=3.12", "pip"] and list(pip) == ["pip"]


def test_environment_yml_and_the_extras_ask_for_the_same_packages():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *packages, project = environment["dependencies"][-1]["pip"]
    extras = [pins(EXTRAS[name]) for name in ("gpu", "lab", "endpoint", "sweep")]
    assert pins(packages) == {name: pin for extra in extras for name, pin in extra.items()}
    assert project == "-e .[train,gpu,lab,endpoint,test]"


def test_the_train_ranges_hold_the_gpu_pins_and_the_cpu_build_of_torch():
    wide = pins(PROJECT["dependencies"]) | pins(EXTRAS["train"])
    for name, pin in pins(EXTRAS["gpu"]).items():
        if name in wide:
            assert Requirement(wide[name]).specifier.contains(pin.partition("==")[2]), wide[name]
    assert Requirement(wide["torch"]).specifier.contains("2.13.0+cpu")


def test_every_imported_package_is_declared():
    declared = {name.lower() for part in EXTRAS.values() for name in pins(part)}
    declared |= {name.lower() for name in pins(PROJECT["dependencies"])}
    known = {"yaml": "pyyaml", "IPython": "ipykernel", "tokenizers": "transformers"}
    known |= {"huggingface_hub": "transformers", "safetensors": "transformers"}
    known |= {"traitlets": "ipywidgets"}
    known |= {"pyspiel": "open_spiel", "nbclient": "papermill", "nbconvert": "jupyterlab"}
    known |= {"anyio": "openai", "httpx2": "openai"}
    for path in [*(ROOT / "wordlelib").glob("*.py"), *(ROOT / "tests").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            for name in {name.partition(".")[0] for name in names}:
                own = (path.parent / f"{name}.py").is_file() or name in ("wordlelib", "packaging")
                if own or name in sys.stdlib_module_names:
                    continue
                assert known.get(name, name) in declared, f"{path.name} imports {name}"


def test_the_word_lists_are_package_data():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packed = {path.name for pattern in patterns["wordlelib"] for path in (ROOT / "wordlelib").glob(pattern)}
    assert {"answers.txt", "allowed.txt"} <= packed


def test_the_citation_names_this_version_and_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == wordlelib.__version__
    assert citation["license"] == PROJECT["license"] == "MIT"


BLOCKED = """
import importlib, sys
blocked = {packages!r}.split()
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
for name in {modules!r}:
    importlib.import_module(f"wordlelib.{{name}}")
from wordlelib import models
try:
    models.device()
except ModuleNotFoundError as error:
    print("missing:", error.name)
"""


def test_case_43_every_module_imports_without_gpu_packages_and_a_missing_one_is_named():
    script = BLOCKED.format(packages=HEAVY, modules=TORCH_FREE)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "missing: torch\n"), done.stderr


@pytest.mark.parametrize("module", ["wordlelib", *(f"wordlelib.{name}" for name in TORCH_FREE)])
def test_importing_a_module_loads_nothing_heavy(module):
    script = f"import sys, {module}; print(sorted(set({HEAVY!r}.split()) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_make_says_in_one_sentence_that_python_is_too_old(tmp_path):
    for name in ("Makefile", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "demo", f"PYTHON={old}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode != 0 and not (tmp_path / ".venv").exists()
    assert done.stderr.splitlines()[0] == (
        f"This needs Python 3.11 or newer, and {old} is not: try make PYTHON=python3.12"
    )


def published_files() -> list:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def test_no_published_file_names_a_path_of_somebodys_machine():
    private = re.compile(r"(?<![\w.}])/(?:home|root|Users|work|mnt|opt)/[\w.-]+")
    for path in published_files():
        try:
            found = private.search(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
        assert found is None, f"{path.relative_to(ROOT)}: {found.group()}"


def test_the_committed_results_stay_within_25_mib():
    reference = ROOT / "results" / "reference"
    sizes = [path.stat().st_size for path in published_files() if path.is_relative_to(reference)]
    assert sum(sizes) <= 25 * 2**20
