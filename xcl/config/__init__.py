# SPDX-License-Identifier: MIT
"""Configuration: `schema` says which keys there are, `read` reads YAML strictly, `write` prints it back."""

from xcl.config.read import Loaded, load
from xcl.config.schema import Config, DataConfig, ModelConfig, OptimizerConfig, SamplerConfig, TrainConfig
from xcl.config.write import json_schema, resolved_yaml, starter_yaml

__all__ = [
    "Config",
    "DataConfig",
    "Loaded",
    "ModelConfig",
    "OptimizerConfig",
    "SamplerConfig",
    "TrainConfig",
    "json_schema",
    "load",
    "resolved_yaml",
    "starter_yaml",
]
