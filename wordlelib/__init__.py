"""Teach a small language model to play Wordle: solver data, SFT, GRPO, and one strict harness.

Import what you need from its module (`from wordlelib.game import score`); importing the package
itself loads neither torch nor any other heavy library.
"""

import os

# TRL tells the hub of each trainer that is made; nothing is sent anywhere unless the user asks for it.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"
