"""torch.distributions: densities, draws and divergences as programs on our tensors.

Rooms: `constraints`, `distribution` (base classes) <- `transforms` <- the families `continuous`, `gamma`, `discrete`,
`further`, `multivariate_normal`, `matrix` <- `transformed` <- `kl`. torch's own module of each distribution (`distributions.normal`, ...) is
there as well.
"""
from __future__ import annotations

import sys as _sys
import types as _types

from lazy_tensor.ops._define import missing as _missing

from . import constraints, transforms
from .continuous import Cauchy, Gumbel, HalfCauchy, HalfNormal, Laplace, Normal, StudentT, Uniform
from .discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    NegativeBinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from .distribution import Distribution, ExponentialFamily, Independent
from .further import ContinuousBernoulli, GeneralizedPareto, VonMises
from .gamma import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma
from .kl import kl_divergence, register_kl
from .matrix import LKJCholesky, LowRankMultivariateNormal, Wishart
from .multivariate_normal import MultivariateNormal
from .transformed import InverseGamma, Kumaraswamy, LogisticNormal, LogNormal, MixtureSameFamily, Pareto, TransformedDistribution, Weibull
from .transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    biject_to,
    identity_transform,
    transform_to,
)

_MODULES = {
    "bernoulli": ("Bernoulli",), "beta": ("Beta",), "binomial": ("Binomial",), "categorical": ("Categorical",), "cauchy": ("Cauchy",),
    "chi2": ("Chi2",), "dirichlet": ("Dirichlet",), "exponential": ("Exponential",), "exp_family": ("ExponentialFamily",),
    "geometric": ("Geometric",), "gumbel": ("Gumbel",), "half_cauchy": ("HalfCauchy",), "half_normal": ("HalfNormal",),
    "independent": ("Independent",), "inverse_gamma": ("InverseGamma",), "kumaraswamy": ("Kumaraswamy",), "laplace": ("Laplace",),
    "log_normal": ("LogNormal",), "mixture_same_family": ("MixtureSameFamily",), "multinomial": ("Multinomial",), "normal": ("Normal",),
    "one_hot_categorical": ("OneHotCategorical", "OneHotCategoricalStraightThrough"), "pareto": ("Pareto",), "poisson": ("Poisson",),
    "relaxed_bernoulli": ("RelaxedBernoulli",), "relaxed_categorical": ("RelaxedOneHotCategorical",), "studentT": ("StudentT",),
    "transformed_distribution": ("TransformedDistribution",), "uniform": ("Uniform",), "weibull": ("Weibull",),
    "negative_binomial": ("NegativeBinomial",), "continuous_bernoulli": ("ContinuousBernoulli",), "fishersnedecor": ("FisherSnedecor",),
    "generalized_pareto": ("GeneralizedPareto",), "lkj_cholesky": ("LKJCholesky",), "logistic_normal": ("LogisticNormal",),
    "lowrank_multivariate_normal": ("LowRankMultivariateNormal",), "von_mises": ("VonMises",), "wishart": ("Wishart",),
    "constraint_registry": ("biject_to", "transform_to"),
}
for _name, _members in _MODULES.items():
    _module = _types.ModuleType(f"{__name__}.{_name}", f"torch.distributions.{_name}: {', '.join(_members)}.")
    _module.__dict__.update({_m: globals()[_m] for _m in _members})
    _sys.modules[_module.__name__] = globals()[_name] = _module


__getattr__ = _missing("distributions", globals())
