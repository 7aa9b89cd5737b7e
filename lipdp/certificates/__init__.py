"""Margins to certified radii, certified accuracy and certified AUROC."""

from lipdp.certificates.accuracy import certified_accuracy, certified_label_accuracy
from lipdp.certificates.auroc import auroc, certified_auroc, macro_auroc
from lipdp.certificates.certify import Certificates, UncertifiedWarning, certify
from lipdp.certificates.metric import CertifiedAccuracy
from lipdp.certificates.radii import label_radii, label_slopes, pairwise_radii, radii

__all__ = [
    "Certificates",
    "CertifiedAccuracy",
    "UncertifiedWarning",
    "auroc",
    "certified_accuracy",
    "certified_auroc",
    "certified_label_accuracy",
    "certify",
    "label_radii",
    "label_slopes",
    "macro_auroc",
    "pairwise_radii",
    "radii",
]
