"""Command line: `python -m wordlelib run|sweep|plan|eval|play|export|convert|adapters|report|bench|…`.

Exit codes: 0 done, 1 a notebook or a trial stopped, a recipe does not fit the card or checked rows break a
rule, 2 wrong use (one sentence on standard error), 130 interrupted.
"""

import argparse
import math
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from wordlelib import params, recipes, restart, runs

SET_FOR_ALL = "a parameter of all trials that do not set it themselves; may be repeated"
DIFFERENCE = params.BEFORE["05_analysis"]["difference"]  # points
STORE = "address such as s3://bucket/mine: finished stages are taken from there and copied there"


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
    if not args.store:
        restart.execute_all(recipes.plan(wanted, out, overwrite=args.overwrite, resume=args.resume), out)
        return show_run(out)
    from wordlelib import store

    store.check(args.store)
    store.fetch(args.store, out)
    planned = recipes.plan(wanted, out, overwrite=args.overwrite, resume=args.resume)
    store.withdraw(args.store, planned)
    restart.execute_all(planned, out, after=lambda stage: store.offer(args.store, out, stage))
    show_run(out)
    store.send(args.store, out)


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


def sweep(args: argparse.Namespace) -> int:
    """Make the trials of a sweep file that are not finished, then print their table and figures."""
    from wordlelib import sweep_results, sweeps

    out, changes = args.out.resolve(), recipes.parse_settings(args.set)
    failed = sweeps.run(args.file, out, args.workers, args.ray, args.store, changes)
    if sweep_results.read_table(out):  # else a shared stage failed, and no trial has begun
        show_sweep(out)
    if failed:
        print(f"trials that failed: {failed}; the same command makes them again", file=sys.stderr)
    return 1 if failed else 0


def show_sweep(out: Path) -> None:
    """The tables of a sweep and the paths of its figures."""
    from wordlelib import ablations, page, report

    print(report.sweep_report(out))
    figures = report.sweep_figures(out)
    if compared := ablations.section(out):
        print(page.markdown(compared))
        figures += ablations.save_figures(compared, out)
    for figure in figures:
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
    """Execute 04_eval on a run again, with the parameters it had there, or for a model without a run."""
    if args.player:
        return evaluate_embedded(args)
    if args.endpoint or (args.out and not args.model):
        return evaluate_endpoint(args)
    if args.model:
        return evaluate_model(args)
    if not args.run:
        raise ValueError(
            "name a run with --run, a folder with --model, a model of a server with --endpoint, --model and "
            "--out, or --player embedded"
        )
    stage, out = "04_eval", args.run.resolve()
    config = out / stage / "config.yaml"
    before = runs.read_yaml(config) if config.is_file() else {}
    before.pop("rules", None)
    recipes.execute_all(recipes.plan({stage: {**before, **eval_changes(args)}}, out, overwrite=True), out)
    show_run(out)


def eval_changes(args: argparse.Namespace) -> dict[str, str]:
    """What the options of `eval` change in the parameters of 04_eval."""
    changes = recipes.parse_settings(f"04_eval.{text}" for text in args.set).get("04_eval", {})
    given = {"max_games": args.max_games, "secrets": args.secrets}
    return {name: value for name, value in given.items() if value is not None} | changes


def evaluate_embedded(args: argparse.Namespace) -> None:
    """Execute 04_eval for the embedded student, beside the two references that need no model."""
    from wordlelib import models

    if args.run or args.endpoint or args.model:
        raise ValueError(
            "--player embedded plays the game that it was trained on: leave out the other models"
        )
    models.existing(models.EMBEDDED)  # before a notebook starts
    values = {
        **{"players": [models.EMBEDDED, "random_consistent", "greedy"], "data_from": models.EMBEDDED},
        **{"max_games": 0, "max_completion_length": 64, "batch_size": 4096},
    }
    evaluate_alone(args, values, args.out or runs.project_path("results/embedded"))


def evaluate_model(args: argparse.Namespace) -> None:
    """Execute 04_eval for a model in a folder, beside the two references that need no model.

    It plays the game of `--run`, else the one that it was trained on where its folder says so, else the
    shipped one.
    """
    from wordlelib import data, models, players

    folder = Path(args.model).resolve()
    models.require_model(folder, players.saved_game(str(folder))[1])  # before a notebook starts
    card = data.card_of(folder)
    values = {
        **{"players": ["model", "random_consistent", "greedy"], "model": str(folder)},
        **{"data_from": _game_of(args.run) or (str(card) if card else "shipped"), "max_games": 0},
        # of a model that was trained elsewhere it is not known how long it thinks
        **{"max_completion_length": 96 if card else 1024, "batch_size": 256},
    }
    evaluate_alone(args, values, args.out or runs.project_path("results") / folder.name)


def _game_of(run: Path | None) -> str:
    """What `data_from` is for the game of a run whose data are made; empty without one."""
    if run:
        runs.finished_stage(run.resolve(), "01_data_synthesis")
    return str(run.resolve()) if run else ""


def evaluate_alone(args: argparse.Namespace, values: dict[str, Any], out: Path) -> None:
    """Execute 04_eval in a run folder that holds nothing else; a finished or unfinished one goes on."""
    wanted = {"04_eval": values | eval_changes(args)}
    planned = recipes.plan(wanted, out.resolve(), overwrite=args.overwrite, resume=not args.overwrite)
    for own in planned.values():
        if own["endpoint"]:  # before a notebook starts, in which it would be a failed cell
            from wordlelib import endpoints

            endpoints.connect(own["endpoint"], own["model"])
    recipes.execute_all(planned, out.resolve())
    show_run(out.resolve())


def evaluate_endpoint(args: argparse.Namespace) -> None:
    """Execute 04_eval for a model behind an endpoint; an unfinished run goes on and pays nothing twice."""
    if not (args.endpoint and args.model and args.out):
        raise ValueError("a model behind an endpoint needs --endpoint URL, --model NAME and --out DIR")
    values = {
        **{"players": ["endpoint"], "endpoint": args.endpoint, "model": args.model},
        **{"data_from": _game_of(args.run) or "shipped", "max_games": 0},
        # room for models that think before they answer; all games of a block wait for its slowest
        **{"max_completion_length": 1024, "batch_size": 512},
    }
    evaluate_alone(args, values, args.out)


def play(args: argparse.Namespace) -> None:
    """Let a model play one game and print every turn."""
    from wordlelib import players
    from wordlelib.evaluate import play_games
    from wordlelib.prompts import printable
    from wordlelib.words import capitals

    words, rules = players.saved_game(args.model)
    secret = args.secret.lower()
    if secret not in words.dictionary:
        raise ValueError(
            f"{secret!r} is not among the {len(words.allowed):,} allowed words of this model's game"
        )
    player = players.saved_player(args.model, rules, args.max_completion_length)
    [record] = play_games(player, [secret], words, rules, name="model")
    for number, turn in enumerate(record["turns"], 1):
        guess, said = turn["guess"] or "no guess", turn["feedback"] or turn["rule"] or turn["reason"]
        print(f"{printable(turn['text'])}\n  {number}. {capitals(guess)} {said}")
    print(f"won in {record['n_guesses']}" if record["won"] else f"lost: the secret was {capitals(secret)}")


def export_model(args: argparse.Namespace) -> None:
    """Make a trained model ready for others: merged 16-bit weights, GGUF, a push to the hub, or the student
    that is embedded in this package."""
    from wordlelib import export

    if args.to == "embedded":
        said = export.embedded(args.run, args.stage, args.overwrite)
    elif args.to == "merged":
        said = export.merged(args.run, args.stage, args.out, args.overwrite)
    elif args.to == "gguf":
        said = export.gguf(args.run, args.stage, args.out, args.overwrite, args.outtype)
    else:
        said = export.hub(args.run, args.stage, args.repo, args.out)
    print(said)


def show_adapters(args: argparse.Namespace) -> None:
    """Print which adapter, or model with all its weights, was trained on what."""
    from wordlelib import adapters, report

    if not (rows := adapters.table(args.folders)):
        raise ValueError(f"no trained model in or below {', '.join(map(runs.shown_path, args.folders))}")
    print(report.aligned([list(rows[0]), *(list(row.values()) for row in rows)]))


def convert(args: argparse.Namespace) -> int:
    """Check games or training rows of others row by row, and write the good ones in another form."""
    from wordlelib import data, formats

    opened = data.load(args.data) if args.data else None
    report = formats.convert(args.source, args.target, args.to, opened, keep=args.keep, summary=args.summary)
    print(report)
    if args.target:
        print(f"{args.target}: {report.made:,} rows of the form {args.to}")
    return 1 if report.left_out and not args.target else 0


def report_runs(args: argparse.Namespace) -> None:
    """Print the tables of runs, keep runs as reference, write results and plans into the project's pages."""
    from wordlelib import ablations, page, plan, reference, report, sweep_results

    root = runs.project_root()
    kept = root / "results" / "reference"
    if args.keep:
        for folder in args.runs:
            keep = reference.keep_sweep if sweep_results.is_sweep(folder) else reference.keep_run
            print("kept in", runs.shown_path(keep(folder, kept)))
    if args.readme:
        reference.update_readme(root / "README.md", kept)
        plan.update_page()
    if not (args.runs or args.readme):
        raise ValueError("name at least one run folder, or --readme")
    if args.games:
        from wordlelib import replay

        for folder in args.runs:
            print("games in", runs.shown_path(replay.write_page(folder)))
    if args.keep or args.readme or args.games:
        return
    asked = args.difference / 100
    if args.html:
        folder = args.out or args.runs[0] / "report"
        return print("Report:", runs.shown_path(page.write(args.runs, folder.resolve(), asked)))
    swept = [folder for folder in args.runs if sweep_results.is_sweep(folder)]
    for folder in swept:
        if not args.markdown:
            show_sweep(folder.resolve())
            continue
        print(report.sweep_report(folder, markdown=True))
        if compared := ablations.section(folder):
            print("\n" + page.markdown(compared))
    if others := [folder for folder in args.runs if folder not in swept]:
        print((report.markdown if args.markdown else report.terminal_table)(others, asked))


def watch(args: argparse.Namespace) -> None:
    """Print a line whenever the training of a run has logged something, until it ends."""
    from wordlelib import watch

    watch.follow(args.run)


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


def finite(text: str) -> float:
    """A finite number from 0; argparse shows the sentence for anything else, `nan` included."""
    with suppress(ValueError):
        if 0 <= (number := float(text)) < math.inf:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is no finite number from 0")


def difference(text: str) -> float:
    """A difference of win rates in points; argparse shows the sentence for anything else."""
    with suppress(ValueError):
        return params.PARAMETERS["05_analysis"]["difference"].accept(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of points from 0.1 to 100")


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
    sub.add_argument("--store", default="", metavar="URL", help=STORE)
    sub.add_argument("--stages", default="", help="only these, such as 02_sft,03_grpo")
    sub.add_argument("--set", action="append", default=[], metavar="STAGE.NAME=VALUE", help="may be repeated")
    sub.add_argument("--overwrite", action="store_true", help="make finished stages again")
    sub.add_argument("--resume", action="store_true", help="keep finished stages, go on with unfinished ones")

    sub = command("sweep", sweep, "many runs of a recipe from one file")
    sub.add_argument("file", type=Path, help="such as notebooks/recipes/sweeps/grpo-beta.yaml")
    sub.add_argument(
        "--out", required=True, type=local_folder, help="folder of the sweep to make or to go on with"
    )
    sub.add_argument("--store", default="", metavar="URL", help=STORE)
    sub.add_argument("--workers", type=int, default=1, help="trials at once, each on its own GPU if any (1)")
    sub.add_argument("--set", action="append", default=[], metavar="STAGE.NAME=VALUE", help=SET_FOR_ALL)
    sub.add_argument("--ray", action="store_true", help="let Ray place the trials, here or on its cluster")

    sub = command("plan", plan_memory, "the GPU memory that a recipe needs")
    sub.add_argument("--recipe", required=True, help="a folder of notebooks/recipes")
    sub.add_argument("--gpu-gb", required=True, type=float, help="memory of the card in GB, such as 24")
    sub.add_argument("--model", help="hub name or local folder in place of the recipe's model")
    sub.add_argument("--set", action="append", default=[], metavar="STAGE.NAME=VALUE", help="may be repeated")

    sub = command(
        "eval", evaluate, "evaluate a run again, a model in a folder or behind an endpoint, or the student"
    )
    sub.add_argument(
        "--run", type=local_folder, help="run folder with trained models; with --model, whose game is played"
    )
    sub.add_argument("--player", choices=("embedded",), default="", help="the student in the package")
    sub.add_argument("--endpoint", default="", metavar="URL", help="an OpenAI-compatible server")
    sub.add_argument(
        "--model", default="", metavar="MODEL", help="a model's folder, or its name on the server"
    )
    sub.add_argument("--out", type=local_folder, help="run folder to make (results/<name of the folder>)")
    sub.add_argument("--max-games", type=int, help="0 for all secrets")
    sub.add_argument("--secrets", choices=("all", "heldout", "train"), help="which are played")
    sub.add_argument("--overwrite", action="store_true", help="play and pay for an endpoint's games again")
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")

    sub = command("play", play, "watch a model play one game")
    sub.add_argument("--model", required=True, help="model folder, hub name or embedded")
    sub.add_argument("--secret", required=True, help="the word to find")
    sub.add_argument("--max-completion-length", type=int, default=64, help="tokens (64)")

    sub = command("export", export_model, "make a trained model ready for others")
    sub.add_argument("--run", required=True, type=local_folder, help="run folder with trained models")
    sub.add_argument(
        "--stage", choices=("02_sft", "03_grpo"), default="03_grpo", help="whose model (03_grpo)"
    )
    sub.add_argument(
        "--to", choices=("merged", "gguf", "hub", "embedded"), required=True, help="what to make of it"
    )
    sub.add_argument("--out", default="", metavar="FOLDER", help="folder to make, or for the hub to push")
    sub.add_argument("--outtype", default="bf16", help="of the GGUF: bf16, f16, q8_0, … (bf16)")
    sub.add_argument("--repo", default="", metavar="USER/NAME", help="repository on the hub")
    sub.add_argument("--overwrite", action="store_true", help="replace an earlier export")

    sub = command("convert", convert, "check data of others and write them in another form")
    sub.add_argument("source", type=Path, help="JSON lines, Parquet, CSV or a folder of `datasets`")
    sub.add_argument("target", type=Path, nargs="?", help="file or folder to make; without it only check")
    sub.add_argument("--to", choices=params.DATA_FORMS, default="sft", help="form of the rows (sft)")
    sub.add_argument("--data", type=Path, help="01_data_synthesis folder whose lists, rules and split hold")
    sub.add_argument(
        "--keep", type=int, default=0, metavar="N", help="only the N shortest good won games of each secret"
    )
    sub.add_argument(
        "--summary",
        type=Path,
        metavar="FOLDER",
        help="write a table of games by secret there, and lists of secrets won and lost",
    )

    sub = command("adapters", show_adapters, "which adapter was trained on what")
    sub.add_argument("folders", nargs="+", type=local_folder, help="run folders, or folders that hold some")

    sub = command("report", report_runs, "the results table of runs or of a sweep")
    sub.add_argument("runs", nargs="*", type=local_folder, help="run folders, or folders of sweeps")
    sub.add_argument("--markdown", action="store_true", help="as a markdown table")
    sub.add_argument("--html", action="store_true", help="write one page, its tables and lists of words")
    sub.add_argument("--out", type=Path, help="folder for --html (report in the first run)")
    sub.add_argument(
        "--difference",
        type=difference,
        default=DIFFERENCE,
        metavar="POINTS",
        help=f"of win rates that comparisons are asked about ({DIFFERENCE:g})",
    )
    sub.add_argument("--keep", action="store_true", help="copy them, without weights, to results/reference")
    sub.add_argument("--readme", action="store_true", help="write results and plans into the pages")
    sub.add_argument("--games", action="store_true", help="write a page to step through all games offline")

    sub = command("watch", watch, "follow the training of a run as text")
    sub.add_argument("run", type=local_folder, help="run folder whose 02_sft or 03_grpo is running")

    sub = command("bench", bench, "measure the fast paths, or training on a GPU")
    sub.add_argument("--gpu", action="store_true", help="training on one GPU; the other options go with it")
    sub.add_argument("--recipe", default="qwen2.5-0.5b", help="whose parameters are measured (qwen2.5-0.5b)")
    sub.add_argument("--model", help="hub name or local folder in place of the recipe's model")
    sub.add_argument("--data", type=Path, help="a 01_data_synthesis folder; without it data are made")
    sub.add_argument("--adapter", choices=("qlora", "lora"), default="qlora", help="for GRPO (qlora)")
    sub.add_argument("--only", default="", help="such as sft, grpo, or names of variants, with commas")
    sub.add_argument("--minutes", type=finite, default=25, help="limit of everything (25)")
    sub.add_argument("--set", action="append", default=[], metavar="STAGE.NAME=VALUE", help="may be repeated")
    sub.add_argument(
        "--out", type=Path, default=Path("results/bench-gpu"), help="files to write, less their endings"
    )

    sub = command("parameters", show_parameters, "the parameters of a notebook")
    sub.add_argument("stage", help=f"one of {', '.join(params.STAGES)}")
    return top


def goes_on(args: argparse.Namespace) -> str:
    """How an interrupted command goes on; empty where it begins anew."""
    if args.command is run:
        return f": the same command with --resume{' in place of --overwrite' * args.overwrite} goes on"
    alone = args.command is evaluate and not args.overwrite and (args.model or args.player)
    return ": the same command goes on with what is not finished" if alone or args.command is sweep else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = parser().parse_args(arguments)
    try:
        return args.command(args) or 0
    except recipes.StageFailed as error:
        print(error, file=sys.stderr)
        return 1
    except (ValueError, OSError, MemoryError) as error:
        print(f"python -m wordlelib: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted{goes_on(args)}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
