"""Teach a small language model to play Wordle: solver data, SFT, GRPO, and one strict harness.

Import what you need from its module (`from wordlelib.game import score`); importing the package
itself loads neither torch nor any other heavy library.
"""

__version__ = "0.1.0"
