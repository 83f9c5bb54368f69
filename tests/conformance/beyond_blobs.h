// What a filesystem over a blob store cannot do (vfs/blob_fs.h), as the tests that need it.
#pragma once

#include <set>
#include <string>

namespace warren::testing {

inline const std::set<std::string>& tests_beyond_blobs() {
  static const std::set<std::string> names{
      // A unit puts its files one after the other.
      "ConcurrencyTest.AUnitIsSeenWholeOrNotAtAll",
      "FileSystemTest.AnInnerUnitThatWasNotCommittedFailsTheOuterOne",
      // Symbolic links.
      "AttributesTest.WhatIsSetIsReturnedAndStays",
      "AttributesTest.OnlyRegularFilesHaveASizeToSet",
      "AttributesTest.MakingANameMovesTheDirectorysTimes",
      "AttributesTest.ExtendedAttributesAreKeptOnEveryType",
      "ContentTest.OnlyRegularFilesHaveContent",
      "DirStreamTest.EntriesHaveInodeTypeAndAttributes",
      "FileSystemTest.AParentThatIsNotADirectoryIsRefused",
      "FileSystemTest.NothingIsMadeOverAnExistingName",
      "FileSystemTest.ASymlinkKeepsItsTarget",
      "FileSystemTest.ASymlinkWithABadTargetIsRefused",
      "FileSystemTest.UnlinkIsForFilesAndRemoveDirForDirectories",
      "FileSystemTest.SymlinksAndSpecialFilesCanBeLinkedToo",
      "FileSystemTest.ADirectoryCountsItsSubdirectories",
      "FileSystemTest.ASetgidDirectoryPassesItsGroupOn",
      "FileTest.MustCreateFailsIfTheFileExists",
      "FileTest.SymlinksAreFollowedUnlessForbidden",
      "PathOpsTest.LinksInAPathAreFollowed",
      "PathOpsTest.LinksInACircleAreRefused",
      "PathOpsTest.FortyLinksAreFollowedAndNoMore",
      "PathOpsTest.ALinkThatEndsInASlashMustLeadToADirectory",
      "PathOpsTest.ExistsDistinguishesMissingFromBroken",
      "PathOpsTest.WriteFileGoesThroughALinkToWhereItPoints",
      "PathOpsTest.MakeDirsAcceptsExistingDirectories",
      "PathOpsTest.UnlinkTakesTheLinkNotItsTarget",
      "PathOpsTest.RenameMovesALinkItself",
      "PathOpsTest.AttributesAreSetThroughOrOnALink",
      "PathOpsTest.ExtendedAttributesByPath",
      "TreeOpsTest.WalkVisitsADirectoryBeforeItsEntriesInOrder",
      "TreeOpsTest.RemoveIsNotRecursiveUnlessAsked",
      "TreeOpsTest.ALinkInATreeDoesNotLeadOutOfIt",
      // Modes and owners.
      "AttributesTest.WhatIsNotSetStays",
      "AttributesTest.TheTypeInAModeIsIgnored",
      "AttributesTest.ChangesBelowADirectoryDoNotTouchIt",
      "FileSystemTest.WhatWasMadeIsFound",
      "FileSystemTest.NoTypeMeansARegularFile",
      "FileSystemTest.OnlyTheTwelvePermissionBitsOfAModeAreTaken",
      "FileTest.AMissingFileIsCreatedOnlyOnRequest",
      "PathOpsTest.WriteFileMakesParentsAndReplacesContent",
      "PathOpsTest.DirectoriesAreMadeAndRemoved",
      "PathOpsTest.CopyFileCopiesContentAndMode",
      // Times apart from the value's.
      "AttributesTest.SettingTheSizeMovesTheTimesEvenToTheSameSize",
      "AttributesTest.ASizeAndAGivenMtimeGoTogether",
      "AttributesTest.WritingMovesMtimeAndCtimeAndReadingMovesNothing",
      "AttributesTest.AllocatingMovesTheTimesOnlyWhenItChangesSomething",
      "RenameTest.TimesMoveOnTheNodeAndBothDirectories",
      // Hard links.
      "AttributesTest.LinkingAndUnlinkingMoveTheNodesCtimeOnly",
      "AttributesTest.AFailedCallMovesNoTimes",
      "FileSystemTest.ALinkIsAnotherNameOfTheSameFile",
      "FileSystemTest.ADirectoryHasOneName",
      "FileSystemTest.AFileHasABoundedNumberOfNames",
      "PathOpsTest.CopyFileRefusesItselfAndANodeThatIsNotAFile",
      "PathOpsTest.LinksAndNodesAreMadeByPath",
      "RenameTest.AReplacedFileKeepsItsOtherNames",
      "RenameTest.TwoNamesOfOneFileStayAsTheyAre",
      "RetainedTest.ARemovedFileGetsNoNewName",
      // Extended attributes.
      "AttributesTest.ExtendedAttributesCanBeCreatedOrReplacedOnly",
      "AttributesTest.ExtendedAttributesHaveLimits",
      "AttributesTest.ExtendedAttributesMoveCtimeOnly",
      "AttributesTest.ANewFileInheritsNoExtendedAttributesOfAnOldOne",
      "RenameTest.ANodeKeepsEverythingButItsName",
      // Counting.
      "ConcurrencyTest.OneDirectoryTakesEveryonesFiles",
      "ConcurrencyTest.RenamesInOppositeDirectionsDoNotMakeALoop",
      "FileSystemTest.ANewFilesystemHasAnEmptyRoot",
      "FileSystemTest.StatsCountNodes",
      "TreeOpsTest.AWideTreeIsRemoved",
      // Files beyond the largest value, and holes.
      "ContentTest.AHugeFileMadeSmallKeepsTheContentBeforeItsNewEnd",
      "ContentTest.AFarOffsetCostsNothing",
      "ContentTest.TheLastPossibleByteCanBeWritten",
      "ContentTest.AppendingToTheLargestFileIsRefused",
      "ContentTest.DataAndHolesAreFoundChunkByChunk",
      "ContentTest.WholeChunksThatArePunchedBecomeHoles",
      "ContentTest.PunchingUpToTheEndMakesAHoleOfTheLastChunk",
      "PathOpsTest.ReadFileRefusesWhatIsTooLarge",
      "PathOpsTest.CopyFileTakesLargeAndSparseFiles",
      // Files that outlive their name.
      "ContentTest.AHugeFileThatIsUnlinkedAndForgottenIsGone",
      "FileTest.AnOpenFileOutlivesItsName",
      "RetainedTest.AnUnlinkedFileLivesUntilItIsForgotten",
      "RetainedTest.UnlinkingMovesTheCtimeOfARetainedNode",
      "RetainedTest.ANodeIsForgottenAsOftenAsItWasRetained",
      "RetainedTest.ForgettingTooMuchOrTheUnknownIsHarmless",
      "RetainedTest.CreateAndOpenRetain",
      "RetainedTest.AReplacedFileLivesUntilItIsForgotten",
      "RetainedTest.NothingIsMadeOrFoundInARemovedDirectory",
      // Exchanging names.
      "DirStreamTest.ExchangedNamesAreListedOnce",
      "PathOpsTest.RenameMovesByPath",
      "RenameTest.ADirectoryCannotMoveIntoItself",
      "RenameTest.AFileCannotBeExchangedWithADirectoryAboveIt",
      "RenameTest.ExchangeSwapsFilesAndDirectories",
      // Special files.
      "FileSystemTest.EveryTypeOfNodeCanBeMade",
      "FileSystemTest.OnlyASymlinkHasATarget",
      "FileTest.OnlyRegularFilesAreOpened",
      "PathOpsTest.WriteFileRefusesANodeThatIsNotAFile",
      // Moving directories.
      "RenameTest.ADirectoryMovesWithAllItHolds",
      "RenameTest.AnAncestorIsNotEmptyAndCannotBeReplaced",
      "RenameTest.OnlyAnEmptyDirectoryIsReplacedByADirectory",
      // Trees deeper than the longest key.
      "TreeOpsTest.AWalkHasALimitInDepth",
      "TreeOpsTest.ADeepTreeIsRemoved",
  };
  return names;
}

}  // namespace warren::testing
