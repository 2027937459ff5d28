"""Command line: `python -m wordlelib run|plan|eval|play|export|report|bench|parameters`.

Exit codes: 0 done, 1 a notebook stopped or a recipe does not fit the card, 2 wrong use (one sentence on
standard error), 130 interrupted.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from wordlelib import params, recipes, restart, runs


def run(args: argparse.Namespace) -> None:
    """Execute the stages of a recipe, then print the table, the figures and how to open the replay."""
    recipe = recipes.read_recipe(args.recipe)
    chosen = [stage for stage in args.stages.split(",") if stage] or list(recipe)
    settings = recipes.parse_settings(args.set)
    for stage in (*chosen, *settings):
        if stage not in recipe:
            raise ValueError(f"recipe {args.recipe} has no stage {stage!r}; it has {', '.join(recipe)}")
    if unused := [stage for stage in settings if stage not in chosen]:
        raise ValueError(f"--set names {unused[0]}, which --stages leaves out")
    wanted = {stage: {**recipe[stage], **settings.get(stage, {})} for stage in recipe if stage in chosen}
    out = args.out.resolve()
    restart.execute_all(recipes.plan(wanted, out, overwrite=args.overwrite, resume=args.resume), out)
    show_run(out)


def show_run(out: Path) -> None:
    """The table of a run that was evaluated, its figures, and the command that opens its replay."""
    from wordlelib import report

    if runs.status(out / "04_eval")["status"] == "done":
        print(report.terminal_table([out]))
        jupyter = runs.shown_path(Path(sys.executable).with_name("jupyter"))
        command = [jupyter, "lab", runs.shown_path(recipes.prepare_replay(out))]
        print(f"\nReplay: {shlex.join(command)}")
    for figure in sorted(out.glob("*/figures/*.html")):
        print("Figure:", runs.shown_path(figure))


def plan_memory(args: argparse.Namespace) -> int:
    """Print the GPU memory that each stage of a recipe needs, and what to set when it does not fit."""
    from wordlelib import plan

    changes = recipes.parse_settings(args.set)
    if args.model:
        changes.setdefault("02_sft", {})["model"] = args.model
    settings = plan.recipe_settings(args.recipe, changes)
    print(plan.table(plan.memory(settings, args.gpu_gb)), end="\n\n")
    fits, sentence = plan.verdict(settings, args.gpu_gb)
    print(sentence)
    return 0 if fits else 1


def evaluate(args: argparse.Namespace) -> None:
    """Execute 04_eval on a run again, with the parameters it had there."""
    stage, out = "04_eval", args.run.resolve()
    runs.finished_stage(out, "01_data_synthesis")
    config = out / stage / "config.yaml"
    before = runs.read_yaml(config) if config.is_file() else {}
    before.pop("rules", None)
    changes = recipes.parse_settings(f"{stage}.{text}" for text in args.set).get(stage, {})
    recipes.execute_all(recipes.plan({stage: {**before, **changes}}, out, overwrite=True), out)
    show_run(out)


def play(args: argparse.Namespace) -> None:
    """Let a model play one game and print every turn."""
    from wordlelib import data, models, players
    from wordlelib.evaluate import play_games
    from wordlelib.rules import Rules
    from wordlelib.words import load_words

    inside = [folder / "01_data_synthesis" for folder in Path(args.model).resolve().parents]
    if made := [folder for folder in inside if (folder / data.CARD).is_file()]:
        source = data.load(made[0])
        words, rules = source.words, source.rules
    else:
        words = load_words()
        rules = Rules(words.sha256["answers"], words.sha256["allowed"])
    secret = args.secret.lower()
    if secret not in words.dictionary:
        raise ValueError(
            f"{secret!r} is not among the {len(words.allowed):,} allowed words of this model's game"
        )
    folder = Path(args.model)
    model, tokenizer = models.load(folder.resolve() if folder.is_dir() else args.model, rules)
    generate = players.transformers_generator(model, tokenizer, args.max_completion_length)
    player = players.model_player(generate, tokenizer, rules)
    [record] = play_games(player, [secret], words, rules, name="model")
    for number, turn in enumerate(record["turns"], 1):
        guess, said = turn["guess"] or "no guess", turn["feedback"] or turn["rule"] or turn["reason"]
        print(f"{turn['text']}\n  {number}. {guess.upper()} {said}")
    print(f"won in {record['n_guesses']}" if record["won"] else f"lost: the secret was {secret.upper()}")


def export_model(args: argparse.Namespace) -> None:
    """Make a trained model ready for others: merged 16-bit weights, GGUF, or a push to the hub."""
    from wordlelib import export

    if args.to == "merged":
        said = export.merged(args.run, args.stage, args.out, args.overwrite)
    elif args.to == "gguf":
        said = export.gguf(args.run, args.stage, args.out, args.overwrite, args.outtype)
    else:
        said = export.hub(args.run, args.stage, args.repo, args.out)
    print(said)


def report_runs(args: argparse.Namespace) -> None:
    """Print the tables of runs, keep runs as reference, write results and plans into the project's pages."""
    from wordlelib import plan, report

    root = runs.project_root()
    reference = root / "results" / "reference"
    if args.keep:
        for folder in args.runs:
            print("kept in", runs.shown_path(report.keep_run(folder, reference)))
    if args.readme:
        report.update_readme(root / "README.md", reference)
        plan.update_page()
    if not (args.runs or args.readme):
        raise ValueError("name at least one run folder, or --readme")
    if not (args.keep or args.readme):
        print((report.markdown if args.markdown else report.terminal_table)(args.runs))


def bench(args: argparse.Namespace) -> int:
    """Measure the fast paths against plain Python, or with --gpu the speed of training on one GPU."""
    if not args.gpu:
        from wordlelib.bench import main as measure

        measure()
        return 0
    from wordlelib import bench_gpu

    changes = recipes.parse_settings(args.set)
    if args.model:
        folder = Path(args.model)
        changes.setdefault("02_sft", {})["model"] = str(folder.resolve()) if folder.is_dir() else args.model
    folder = args.data.resolve() if args.data else None
    return bench_gpu.main(
        args.recipe, changes, folder, args.adapter, args.only, args.minutes, args.out.resolve()
    )


def show_parameters(args: argparse.Namespace) -> None:
    """Print the parameter table of a notebook, as it stands above its parameter cell."""
    print(params.markdown_table(args.stage))


def local_folder(text: str) -> Path:
    """A folder of this machine; argparse shows the sentence for an address."""
    try:
        return Path(params.require_local(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parser() -> argparse.ArgumentParser:
    """The command line with its help texts."""
    top = argparse.ArgumentParser(prog="python -m wordlelib", description="Wordle workbook")
    commands = top.add_subparsers(required=True, metavar="command")

    def command(name: str, function, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=function.__doc__)
        sub.set_defaults(command=function)
        return sub

    sub = command("run", run, "execute the notebooks of a recipe")
    sub.add_argument("--recipe", required=True, help="a folder of notebooks/recipes")
    sub.add_argument("--out", required=True, type=local_folder, help="run folder to make")
    sub.add_argument("--stages", default="", help="only these, such as 02_sft,03_grpo")
    sub.add_argument("--set", action="append", default=[], metavar="STAGE.NAME=VALUE", help="may be repeated")
    sub.add_argument("--overwrite", action="store_true", help="make finished stages again")
    sub.add_argument("--resume", action="store_true", help="keep finished stages, go on with unfinished ones")

    sub = command("plan", plan_memory, "the GPU memory that a recipe needs")
    sub.add_argument("--recipe", required=True, help="a folder of notebooks/recipes")
    sub.add_argument("--gpu-gb", required=True, type=float, help="memory of the card in GB, such as 24")
    sub.add_argument("--model", help="hub name or local folder in place of the recipe's model")
    sub.add_argument("--set", action="append", default=[], metavar="STAGE.NAME=VALUE", help="may be repeated")

    sub = command("eval", evaluate, "evaluate a run again")
    sub.add_argument("--run", required=True, type=local_folder, help="run folder with trained models")
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")

    sub = command("play", play, "watch a model play one game")
    sub.add_argument("--model", required=True, help="model folder or hub name")
    sub.add_argument("--secret", required=True, help="the word to find")
    sub.add_argument("--max-completion-length", type=int, default=64, help="tokens (64)")

    sub = command("export", export_model, "make a trained model ready for others")
    sub.add_argument("--run", required=True, type=local_folder, help="run folder with trained models")
    sub.add_argument(
        "--stage", choices=("02_sft", "03_grpo"), default="03_grpo", help="whose model (03_grpo)"
    )
    sub.add_argument("--to", choices=("merged", "gguf", "hub"), required=True, help="what to make of it")
    sub.add_argument("--out", default="", metavar="FOLDER", help="folder to make, or for the hub to push")
    sub.add_argument("--outtype", default="bf16", help="of the GGUF: bf16, f16, q8_0, … (bf16)")
    sub.add_argument("--repo", default="", metavar="USER/NAME", help="repository on the hub")
    sub.add_argument("--overwrite", action="store_true", help="replace an earlier export")

    sub = command("report", report_runs, "the results table of runs")
    sub.add_argument("runs", nargs="*", type=local_folder, help="run folders")
    sub.add_argument("--markdown", action="store_true", help="as a markdown table")
    sub.add_argument("--keep", action="store_true", help="copy them, without weights, to results/reference")
    sub.add_argument("--readme", action="store_true", help="write results and plans into the pages")

    sub = command("bench", bench, "measure the fast paths, or training on a GPU")
    sub.add_argument("--gpu", action="store_true", help="training on one GPU; the other options go with it")
    sub.add_argument("--recipe", default="qwen2.5-0.5b", help="whose parameters are measured (qwen2.5-0.5b)")
    sub.add_argument("--model", help="hub name or local folder in place of the recipe's model")
    sub.add_argument("--data", type=Path, help="a 01_data_synthesis folder; without it data are made")
    sub.add_argument("--adapter", choices=("qlora", "lora"), default="qlora", help="for GRPO (qlora)")
    sub.add_argument("--only", default="", help="such as sft, grpo, or names of variants, with commas")
    sub.add_argument("--minutes", type=float, default=9, help="limit of everything (9)")
    sub.add_argument("--set", action="append", default=[], metavar="STAGE.NAME=VALUE", help="may be repeated")
    sub.add_argument(
        "--out", type=Path, default=Path("results/bench-gpu"), help="files to write, less their endings"
    )

    sub = command("parameters", show_parameters, "the parameters of a notebook")
    sub.add_argument("stage", help=f"one of {', '.join(params.STAGES)}")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = parser().parse_args(arguments)
    try:
        return args.command(args) or 0
    except recipes.StageFailed as error:
        print(error, file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"python -m wordlelib: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command with --resume goes on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
